"""The files that commands read and write, and the errors where one is not as it must be."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from devrt.compiling import Program
from devrt.errors import DevrtError, InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

    from devrt.programs.exported import Exported

__all__ = [
    "FileProgram",
    "is_program",
    "naming",
    "read",
    "read_arguments",
    "read_code",
    "read_program",
    "writing",
]

_POSITION = re.compile(r"(?<!\S)-:(?=\d+:\d+:)")


class FileProgram(Program):
    """A program in a file; ``exported`` is what its exporter says beside it, or None."""

    exported: Exported | None = None

    def check_platform(self, platform: str) -> None:
        """Refuse a platform that it was not exported for, as `load_program` does."""
        if self.exported is not None:
            self.exported.platform_number(platform, "give --platform {0}")


def read(path: str) -> bytes:
    """Return what a file holds."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise _unreadable(path, error.strerror or error) from error


def read_code(path: str) -> FileProgram:
    """Return what a file holds; of what ``jax.export`` serialised the program in it."""
    code = FileProgram(read(path))
    if is_program(code):
        return code
    from devrt.programs.exported_bytes import is_exported, read_exported

    if not is_exported(code):
        return code
    exported = read_exported(code)
    exported.check()
    code = FileProgram(exported.code)
    code.exported = exported
    return code


def read_program(path: str) -> FileProgram:
    """Return a program, which is text or bytecode, not whether it is a right one."""
    program = read_code(path)
    if not is_program(program):
        msg = (
            f"{path!r} is no program: it is neither StableHLO's text nor its bytecode. Export the "
            "program again. What `devrt compile` wrote is run by `devrt run`, or loaded by "
            "`deserialize_executable` of a client of the platform that it was compiled for."
        )
        raise InvalidArgumentError(msg, path=path)
    return program


def is_program(code: Program) -> bool:
    """Return whether it is text or bytecode, not whether it is a right one."""
    if code.is_bytecode:
        return True
    try:
        return "\0" not in code.decode()
    except UnicodeDecodeError:
        return False


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Let a compiler's errors name the program's file, which it knows as ``-``."""
    try:
        yield
    except DevrtError as error:
        message = _POSITION.sub(lambda _: f"{path}:", error.message)
        if message == error.message:
            raise
        raise type(error)(message, code=error.code, **error.data) from error


def read_arguments(path: str | None) -> list[np.ndarray[Any, Any]]:
    """Return the arrays of an ``.npz`` file: ``in0``, ``in1``, ..., or all in the file's order.

    Results (``out0``, ...) may lie beside arguments that are named, and nothing else.
    """
    import numpy as np

    if path is None:
        return []
    try:
        with open(path, "rb") as file:
            stored = np.load(file)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise _unreadable(path, "it holds one array; write an .npz file with numpy.savez")
            return [stored[name] for name in _in_order(path, stored.files)]
    except OSError as error:
        raise _unreadable(path, error.strerror or error) from error
    except (ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, InvalidArgumentError):
            raise
        why = "" if isinstance(error, ValueError) else f" ({error})"  # NumPy advises pickle
        raise _unreadable(path, f"it is no .npz file of numbers{why}") from error


def _in_order(path: str, names: list[str]) -> list[str]:
    numbers = sorted(int(name[2:]) for name in names if re.fullmatch(r"in\d+", name))
    if not numbers:
        return names
    others = [name for name in names if not re.fullmatch(r"(in|out)\d+", name)]
    if numbers != list(range(len(numbers))) or others:
        why = f"arguments are named in0, in1, ... without a gap, and it has {', '.join(names)}"
        raise _unreadable(path, why)
    return [f"in{number}" for number in numbers]


@contextlib.contextmanager
def writing(path: str) -> Iterator[IO[bytes]]:
    """Write a file whole or not at all; that it cannot be is an error before anything is done."""
    try:
        with _opened(path) as file:
            yield file
    except OSError as error:
        msg = f"{path!r} cannot be written: {error.strerror or error}."
        raise InvalidArgumentError(msg, path=path) from error


@contextlib.contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode):
        with open(path, "wb") as device:  # a pipe, a terminal: nothing to put in its place
            yield device
        return
    beside = os.path.dirname(os.path.realpath(path))
    with tempfile.NamedTemporaryFile(dir=beside, delete=False) as file:
        try:
            yield file
            file.close()
            os.chmod(file.name, 0o666 & ~_umask())
            os.replace(file.name, os.path.realpath(path))
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(file.name)
            raise


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _unreadable(path: str, why: object) -> InvalidArgumentError:
    return InvalidArgumentError(f"{path!r} cannot be read: {why}.", path=path)
