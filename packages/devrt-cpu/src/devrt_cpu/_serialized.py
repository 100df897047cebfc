"""Serialised executables, which say what the code was made by and for."""

from __future__ import annotations

from devrt.compiling import serialized
from devrt.compiling.serialized import Serialized, origin_of
from devrt.errors import InvalidArgumentError
from devrt_cpu._library import find_library

__all__ = ["read", "with_checksum"]

_OPERATION = "deserialize_executable"


def with_checksum(executable: bytes, options: bytes = b"") -> bytes:
    """Return a compiler's serialised executable with its checksum and its origin."""
    return serialized.with_checksum(executable, options, origin_of(find_library()))


def read(data: bytes) -> Serialized:
    """Return the executable and the options of what `with_checksum` returned.

    Raises `InvalidArgumentError` if it is cut, damaged or something else, or was made by another
    version of the compiler or on another kind of processor.
    """
    found = Serialized.read(data, _OPERATION)
    if not found.made_by:
        msg = (
            f"{_OPERATION} failed: these bytes cannot be loaded here: they are no executable that "
            "devrt-cpu serialised. Compile again."
        )
        raise InvalidArgumentError(msg, operation=_OPERATION)
    found.check_origin(origin_of(find_library()), _OPERATION)
    return found
