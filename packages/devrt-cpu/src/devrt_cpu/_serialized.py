"""Serialised executables, which say what the code was made by and for.

Code of another compiler, or for another processor, ends the process where it is loaded.
"""

from __future__ import annotations

import functools
import hashlib

from devrt.compiling import serialized
from devrt.compiling.serialized import Serialized
from devrt.errors import InvalidArgumentError

__all__ = ["read", "with_checksum"]


def with_checksum(executable: bytes, options: bytes = b"") -> bytes:
    """Return a compiler's serialised executable with its checksum and its origin."""
    return serialized.with_checksum(executable, options, _compiler() + _machine())


def read(data: bytes) -> Serialized:
    """Return the executable and the options of what `with_checksum` returned.

    Raises
    ------
    InvalidArgumentError
        If it is cut, damaged or something else, or was made by another version of the compiler or
        on another kind of processor.
    """
    found = Serialized.read(data, "deserialize_executable")
    compiler, machine = _compiler(), _machine()
    if not found.made_by:
        raise _refused("they are no executable that devrt-cpu serialised")
    if found.made_by[: len(compiler)] != compiler:
        raise _refused("another version of the compiler made them")
    if found.made_by[len(compiler) :] != machine:
        raise _refused("they were compiled on another kind of processor")
    return found


def _refused(why: str) -> InvalidArgumentError:
    msg = f"deserialize_executable failed: these bytes cannot be loaded here: {why}. Compile again."
    return InvalidArgumentError(msg, operation="deserialize_executable")


@functools.cache
def _compiler() -> bytes:
    from devrt.compiling.cache import hash_of_library
    from devrt_cpu._library import find_library

    return bytes.fromhex(hash_of_library(find_library()))


@functools.cache
def _machine() -> bytes:
    from devrt.compiling.cache import host_cpu

    return hashlib.sha256(host_cpu().encode()).digest()
