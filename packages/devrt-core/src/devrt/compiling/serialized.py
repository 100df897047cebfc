"""Serialised executables and topologies: a plugin's own bytes, and a checksum behind them.

Plugins read machine code and tables back without a check, so that a changed byte ends the process.
The checksum finds damage; it does not make bytes of an attacker safe to load.

It is one more field of the plugin's message, of a number that nobody uses: other runtimes pass over
it and read the message all the same. What is no protobuf message is left as it is.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from operator import eq

from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import bytes_field, fields, ints, packed

__all__ = ["Serialized", "origin_of", "with_checksum"]

_NUMBER = 0x0DE5_2017
_MAGIC = b"devrt sha256 2 "
_OPTIONS, _MADE_BY, _DONATED = 1, 2, 3
_LENGTH_BYTES, _DIGEST_BYTES = 4, 32
_TAIL_BYTES = len(_MAGIC) + _LENGTH_BYTES + _DIGEST_BYTES
_TAG = bytes_field(_NUMBER, b"")[:-1]


@dataclasses.dataclass(frozen=True, slots=True)
class Serialized:
    """What `with_checksum` was given.

    Attributes
    ----------
    data : bytes
        The plugin's bytes.
    options : bytes
        The serialised compile options to load them with; empty for those within the bytes.
    made_by : bytes
        The identity of what made them; empty where nobody gave one.
    is_checked : bool
        Whether there was a checksum, which holds.
    donated : tuple of int or None
        Numbers of the parameters that the program may take over; None where that is not known.
    """

    data: bytes
    options: bytes = b""
    made_by: bytes = b""
    is_checked: bool = False
    donated: tuple[int, ...] | None = None

    @classmethod
    def read(cls, data: bytes, operation: str) -> Serialized:
        """Read what `with_checksum` gave; other bytes, of other runtimes, are taken as they are.

        Raises
        ------
        InvalidArgumentError
            If they changed since, or were cut.
        """
        tail = data[-_TAIL_BYTES:]
        if not tail.startswith(_MAGIC):
            if _had_checksum(data):
                raise _damaged(operation)
            return cls(data)
        size = int.from_bytes(tail[len(_MAGIC) : -_DIGEST_BYTES], "little")
        digest = hashlib.sha256(data[:-_DIGEST_BYTES]).digest()
        if size > len(data) or digest != tail[-_DIGEST_BYTES:]:
            raise _damaged(operation)
        whole = len(bytes_field(_NUMBER, bytes(size + _TAIL_BYTES)))
        found = dict(fields(data[-_TAIL_BYTES - size : -_TAIL_BYTES]))
        options, made_by = (bytes(found.get(n, b"")) for n in (_OPTIONS, _MADE_BY))
        donated = tuple(ints(found[_DONATED])) if _DONATED in found else None
        return cls(data[:-whole], options, made_by, True, donated)

    @staticmethod
    def is_one(data: bytes) -> bool:
        """Return whether bytes are what `with_checksum` gave, as they are or damaged."""
        return data[-_TAIL_BYTES:].startswith(_MAGIC) or _had_checksum(data)

    def check_origin(self, here: bytes, operation: str) -> None:
        """Refuse what was made elsewhere than `origin_of` says; bytes that tell nothing are taken.

        Raises
        ------
        InvalidArgumentError
            If another version of the compiler made it, or on another kind of processor.
        """
        if not self.made_by or not here or self.made_by == here:
            return
        is_same_compiler = self.made_by[:_DIGEST_BYTES] == here[:_DIGEST_BYTES]
        what = "they were compiled on another kind of processor"
        why = what if is_same_compiler else "another version of the compiler made them"
        msg = f"{operation} failed: these bytes cannot be loaded here: {why}. Compile again."
        raise InvalidArgumentError(msg, operation=operation)


def _had_checksum(data: bytes) -> bool:
    """Return whether there was a checksum in bytes that do not end with one.

    Damage may hit its mark as any other byte. What is left of it is its field's tag, wherever the
    bytes were cut or grew, or most of the mark at the end.
    """
    alike = sum(map(eq, data[-_TAIL_BYTES:], _MAGIC))
    return (len(data) >= _TAIL_BYTES and 2 * alike > len(_MAGIC)) or _TAG in data


def _damaged(operation: str) -> InvalidArgumentError:
    msg = (
        f"{operation} failed: these bytes cannot be loaded here: they are damaged or cut "
        "off since they were written. Make them anew."
    )
    return InvalidArgumentError(msg, operation=operation)


def origin_of(library: str) -> bytes:
    """Return the identity of the compiler in a library, and of this host's processor.

    Machine code of another compiler, or for another processor, ends the process where it is loaded.
    """
    return _compiler(library) + _machine()


def _compiler(library: str) -> bytes:
    from devrt.compiling.library_hash import hash_of_library

    return bytes.fromhex(hash_of_library(library))


@functools.cache
def _machine() -> bytes:
    from devrt.compiling.cache import host_cpu

    return hashlib.sha256(host_cpu().encode()).digest()


def with_checksum(
    data: bytes,
    options: bytes = b"",
    made_by: bytes = b"",
    donated: tuple[int, ...] | None = None,
) -> bytes:
    """Return a plugin's serialised bytes with a checksum.

    What is no message stays as it is, as long as nothing is added to it.

    Parameters
    ----------
    data
        The bytes.
    options
        The serialised compile options to load them with; empty for those within the bytes.
    made_by
        The identity of what made them, for the reader to compare.
    donated
        Numbers of the parameters that the program may take over; None where that is not known.
    """
    if not (options or made_by or _is_message(data)):
        return data
    added = b"".join(
        bytes_field(number, value)
        for number, value in ((_OPTIONS, options), (_MADE_BY, made_by))
        if value
    )
    added += b"" if donated is None else packed(_DONATED, donated)
    tail = _MAGIC + len(added).to_bytes(_LENGTH_BYTES, "little") + bytes(_DIGEST_BYTES)
    head = data + bytes_field(_NUMBER, added + tail)[:-_DIGEST_BYTES]
    return head + hashlib.sha256(head).digest()


def _is_message(data: bytes) -> bool:
    try:
        for _ in fields(data):
            pass
    except InvalidArgumentError:
        return False
    return True
