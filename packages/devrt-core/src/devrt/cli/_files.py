"""The files that commands read and write, and what is said where one is not as it must be."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from devrt._stablehlo import is_bytecode
from devrt.errors import DevrtError, InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["naming", "read", "read_arguments", "read_program", "write_whole"]

_PLACE = re.compile(r"(?<!\S)-:(?=\d+:\d+:)")


def read(path: str) -> bytes:
    """Return what a file holds."""
    try:
        return Path(path).read_bytes()
    except OSError as error:
        msg = f"{path!r} cannot be read: {error.strerror}."
        raise InvalidArgumentError(msg, path=path) from error


def read_program(path: str) -> bytes:
    """Return a program, which is text or bytecode, not whether it is a right one."""
    code = read(path)
    if not is_bytecode(code) and not _is_text(code):
        msg = (
            f"{path!r} is no program: it is neither StableHLO's text nor its bytecode. Export the "
            "program again. What `devrt compile` wrote is loaded by `deserialize_executable` of a "
            "client of the platform that it was compiled for."
        )
        raise InvalidArgumentError(msg, path=path)
    return code


def _is_text(code: bytes) -> bool:
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
        message = _PLACE.sub(lambda _: f"{path}:", error.message)
        if message == error.message:
            raise
        raise type(error)(message, code=error.code, **error.data) from error


def read_arguments(path: str) -> list[np.ndarray[Any, Any]]:
    """Return the arrays ``in0``, ``in1``, ... of an ``.npz`` file, else all in the file's order."""
    import numpy as np

    try:
        with open(path, "rb") as file:  # NumPy leaves its own open where it fails
            stored = np.load(file)
            if not isinstance(stored, np.lib.npyio.NpzFile):
                msg = f"{path!r} holds one array, no names: arguments are read from an .npz file."
                raise InvalidArgumentError(msg, path=path)
            return [stored[name] for name in _ordered(stored.files, path)]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, DevrtError):
            raise
        why = "" if isinstance(error, ValueError) else f" ({error})"  # NumPy advises pickle
        msg = (
            f"{path!r} cannot be read as an .npz file of plain arrays{why}. "
            "Write it with numpy.savez(path, in0=..., in1=...)."
        )
        raise InvalidArgumentError(msg, path=path) from error


def _ordered(names: list[str], path: str) -> list[str]:
    numbers = sorted(int(name[2:]) for name in names if re.fullmatch(r"in(0|[1-9]\d*)", name))
    if not numbers:
        return names
    missing = next((n for n in range(len(numbers)) if n not in numbers), None)
    if missing is not None:
        msg = f"{path!r} has in{numbers[-1]} and no in{missing}: arguments are numbered from 0 on."
        raise InvalidArgumentError(msg, path=path)
    return [f"in{n}" for n in numbers]


def write_whole(path: str, what: str, save: Callable[[IO[bytes]], object]) -> None:
    """Write a file whole or not at all; what is no plain file, such as a device, in place.

    Parameters
    ----------
    path
        The file.
    what
        What it is, for the error.
    save
        Writes to an open file.
    """
    target = os.path.realpath(path)
    try:
        if os.path.exists(target) and not os.path.isfile(target):
            with open(target, "wb") as file:
                save(file)
            return
        _replace(target, save)
    except OSError as error:
        msg = f"{what} cannot be written to {path!r}: {error.strerror}."
        raise InvalidArgumentError(msg, path=path) from error


def _replace(target: str, save: Callable[[IO[bytes]], object]) -> None:
    temporary = f"{target}.{secrets.token_hex(4)}"
    try:
        with open(temporary, "xb") as file:  # with the permissions that the user's umask leaves
            save(file)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
