"""What a user gives as a program: recognised, and read."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.compiling import Program
from devrt.compiling.serialized import Serialized
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.programs.exported import Exported
from devrt.programs.exported_bytes import is_exported, read_exported
from devrt.programs.jax_objects import read_jax_object
from devrt.programs.torch_objects import read_torch_object

if TYPE_CHECKING:
    from devrt.contract import Client

__all__ = ["Source", "read_source"]

_ZIP, _BYTECODE = b"PK\x03\x04", b"ML\xefR"
_WHAT = (
    "It takes StableHLO as text or bytes, the path of a file, jax.export.export(jax.jit(f))(x) or "
    "its serialize(), jax.jit(f).lower(x), or what torch.export.export returns."
)
_HINTS = {
    ("jax", "Compiled"): (
        "It is compiled for JAX's own backend, which shares nothing with devrt: pass what it was "
        "compiled of, jax.jit(f).lower(x)."
    ),
    ("torch", "Module"): "Export it: torch.export.export(module, (x,)).",
    ("torch", "ScriptModule"): "Export it: torch.export.export(module, (x,)).",
    ("devrt", "ArrayProgram"): "It is loaded already: call it.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Source:
    """A program as it was given.

    Attributes
    ----------
    code : bytes or str
        StableHLO.
    exported : Exported or None
        What an exporter says beside it.
    executable : bytes
        A serialised executable, in place of StableHLO.
    """

    code: bytes | str = b""
    exported: Exported | None = None
    executable: bytes = b""

    def first_on(self, client: Client) -> Sequence[object]:
        """Return the values that it takes before its arguments on a client.

        Raises
        ------
        InvalidArgumentError
            If it was exported for other platforms.
        """
        if self.exported is None:
            return ()
        number = self.exported.platform_number(_platform_of(client))
        return self.exported.first if number is None else (np.int32(number), *self.exported.first)


def _platform_of(client: Client) -> str:
    """Return a client's platform: by the plugin's own name where users gave it another."""
    return str(getattr(client, "plugin_platform", client.platform))


def read_source(given: Any) -> Source:
    """Return the program in what a user gives.

    Raises
    ------
    InvalidTypeError
        If there is none in it; says what to give.
    InvalidArgumentError
        If it is the path of a file that cannot be read, bytes that were cut, or a function that
        cannot be called here.
    UnimplementedError
        If what reads it is not installed, or it is called by a convention that is not known.
    """
    if isinstance(given, bytes | bytearray | memoryview):
        return _of_bytes(given)
    if isinstance(given, os.PathLike) or (isinstance(given, str) and _is_path(given)):
        return _of_bytes(_read(given))
    if isinstance(given, str):
        return Source(given)
    exported = read_jax_object(given) or read_torch_object(given)
    if exported is None:
        raise InvalidTypeError(_refusal(given), operation="load_program")
    return _of_exported(exported)


def _is_path(text: str) -> bool:
    """Return whether a text names a file: every program has a brace or more than one line."""
    return bool(text.strip()) and "{" not in text and "\n" not in text


def _read(path: str | os.PathLike[Any]) -> bytes:
    try:
        return Path(os.fsdecode(path)).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        msg = f"{os.fsdecode(path)!r} cannot be read as a program's file: {why}."
        if isinstance(path, str):
            msg += " A text that is a program itself has braces."
        raise InvalidArgumentError(msg, operation="load_program", path=str(path)) from error


def _of_bytes(given: bytes | bytearray | memoryview) -> Source:
    if isinstance(given, Program):
        return Source(given)
    data = bytes(given)
    if data.startswith(_BYTECODE):
        return Source(data)
    if Serialized.is_one(data):
        return Source(executable=data)
    if is_exported(data):
        return _of_exported(read_exported(data))
    if data.startswith(_ZIP):
        msg = (
            "the bytes are a zip archive, and no program. What torch.export.save wrote is loaded "
            "with torch.export.load(path): pass what that returns."
        )
        raise InvalidArgumentError(msg, operation="load_program")
    return Source(data)


def _of_exported(exported: Exported) -> Source:
    exported.check()
    return Source(exported.code, exported)


def _refusal(given: object) -> str:
    msg = f"load_program makes no program of a value of type {type(given).__name__}."
    for cls in type(given).__mro__:
        hint = _HINTS.get((cls.__module__.partition(".")[0], cls.__name__))
        if hint is not None:
            return f"{msg} {hint}"
    if callable(given):
        return f"{msg} Export it: jax.export.export(jax.jit(f))(x), with arguments x of its shapes."
    return f"{msg} {_WHAT}"
