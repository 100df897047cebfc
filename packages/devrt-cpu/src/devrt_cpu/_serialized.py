"""Serialised executables: the compiler's own bytes, behind a checksum.

What the compiler gives holds machine code and tables that it reads back without a check: a changed
byte, or code for another processor, ends the process. So a digest of all, and what the code was
made by and for, go before it and are looked at first. The digest finds damage; it does not make
bytes of somebody who means harm safe to load.
"""

from __future__ import annotations

import functools
import hashlib

from devrt.errors import InvalidArgumentError

__all__ = ["with_checksum", "without_checksum"]

_MAGIC = b"DEVRTCPU\x02"
_DIGEST = hashlib.sha256
_BYTES = 32
_HEAD = len(_MAGIC) + 3 * _BYTES
_LENGTH = 8  # bytes of the length of the options, which stand before the executable


def with_checksum(executable: bytes, options: bytes = b"") -> bytes:
    """Return a compiler's serialised executable with what tells damage and other machines apart.

    Parameters
    ----------
    executable
        The compiler's bytes.
    options
        The serialised compile options to load it with; empty for those within the bytes.
    """
    head = _MAGIC + _compiler() + _machine()
    body = len(options).to_bytes(_LENGTH, "little") + options + executable
    return head + _digest(head, body) + body


def without_checksum(serialized: bytes) -> tuple[bytes, bytes]:
    """Return the executable and the options of what `with_checksum` returned.

    Raises
    ------
    InvalidArgumentError
        If it is cut, damaged or something else, or was made by another version of the compiler or
        on another kind of processor.
    """
    if not serialized.startswith(_MAGIC):
        raise _refused("they are no executable that devrt-cpu serialised")
    head, body = serialized[: _HEAD - _BYTES], memoryview(serialized)[_HEAD:]
    if serialized[_HEAD - _BYTES : _HEAD] != _digest(head, body):
        raise _refused("they are damaged or cut off")
    compiler, machine = head[len(_MAGIC) : -_BYTES], head[-_BYTES:]
    if compiler != _compiler():
        raise _refused("another version of the compiler made them")
    if machine != _machine():
        raise _refused("they were compiled on another kind of processor")
    end = _LENGTH + int.from_bytes(body[:_LENGTH], "little")
    return bytes(body[end:]), bytes(body[_LENGTH:end])


def _refused(why: str) -> InvalidArgumentError:
    msg = f"deserialize_executable failed: these bytes cannot be loaded here: {why}. Compile again."
    return InvalidArgumentError(msg, operation="deserialize_executable")


def _digest(head: bytes, body: bytes | memoryview) -> bytes:
    digest = _DIGEST(head)
    digest.update(body)
    return digest.digest()


@functools.cache
def _compiler() -> bytes:
    from devrt.compiling.cache import hash_of_library
    from devrt_cpu._engine import find_library

    return _DIGEST(hash_of_library(find_library()).encode()).digest()


@functools.cache
def _machine() -> bytes:
    from devrt.compiling.cache import host_cpu

    return _DIGEST(host_cpu().encode()).digest()
