"""A checksum behind what a plugin has serialised: of damaged machine code the process would die.

It is one more field of the message, of a number that nobody uses, so that other runtimes still read
the message: they pass over fields that they do not know. What is no message is left as it is.
"""

from __future__ import annotations

import hashlib

from devrt.errors import InvalidArgumentError
from devrt.wire.protobuf import bytes_field, fields

__all__ = ["split_options", "with_checksum", "with_options", "without_checksum"]

_NUMBER = 0x0DE5_2017
_OPTIONS = 0x0DE5_2018  # one field more, before the checksum
_MAGIC = b"devrt sha256 1 "


def _trailer(data: bytes) -> bytes:
    return bytes_field(_NUMBER, _MAGIC + hashlib.sha256(data).digest())


_BYTES = len(_trailer(b""))
_HEAD = _trailer(b"")[: -hashlib.sha256().digest_size]


def with_checksum(data: bytes) -> bytes:
    """Return serialised bytes and their checksum; what is no protobuf message, as it is."""
    return data + _trailer(data) if _is_message(data) else data


def _is_message(data: bytes) -> bool:
    try:
        for _ in fields(data):
            pass
    except InvalidArgumentError:
        return False
    return True


def with_options(data: bytes, options: bytes) -> bytes | None:
    """Return an executable with the options to load it with; None where there is no way to."""
    if not options:
        return data
    return data + bytes_field(_OPTIONS, options) if _is_message(data) else None


def split_options(data: bytes) -> tuple[bytes, bytes]:
    """Return an executable, and the options that `with_options` gave it; empty if it has none."""
    options = b""
    try:
        for number, value in fields(data):
            options = bytes(value) if number == _OPTIONS and not isinstance(value, int) else b""
    except InvalidArgumentError:
        return data, b""
    return (data[: -len(bytes_field(_OPTIONS, options))], options) if options else (data, b"")


def without_checksum(data: bytes, operation: str) -> bytes:
    """Return bytes that have a checksum without it, and others, of other runtimes, as they are.

    Raises
    ------
    InvalidArgumentError
        If it was changed since.
    """
    if not data[-_BYTES:].startswith(_HEAD):
        return data
    whole = data[:-_BYTES]
    if data[-_BYTES:] != _trailer(whole):
        msg = f"{operation} failed: the bytes were damaged since they were written. Make them anew."
        raise InvalidArgumentError(msg, operation=operation)
    return whole
