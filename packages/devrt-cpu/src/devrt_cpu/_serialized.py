"""Serialised executables, which say what the code was made by and for."""

from __future__ import annotations

from devrt.compiling import serialized
from devrt.compiling.serialized import Serialized, origin_of
from devrt.errors import InvalidArgumentError

__all__ = ["read", "with_checksum"]

_OPERATION = "deserialize_executable"


def with_checksum(executable: bytes, options: bytes, library: str) -> bytes:
    """Return a serialised executable of a compiler's library with its checksum and its origin."""
    return serialized.with_checksum(executable, options, origin_of(library))


def read(data: bytes, library: str) -> Serialized:
    """Return the executable and the options of what `with_checksum` returned, for a library.

    Raises `InvalidArgumentError` if it is cut, damaged or something else, or was made by another
    compiler, another version of it, or on another kind of processor.
    """
    found = Serialized.read(data, _OPERATION)
    if not found.made_by:
        msg = (
            f"{_OPERATION} failed: these bytes cannot be loaded here: they are no executable that "
            "devrt-cpu serialised. Compile again."
        )
        raise InvalidArgumentError(msg, operation=_OPERATION)
    found.check_origin(origin_of(library), _OPERATION)
    return found
