"""The protobuf wire format: the one writer and reader of the messages that devrt knows.

Source: the encoding's description at protobuf.dev. Messages are read lazily: a field that nobody
asks for is skipped by its length, so that a large module costs little.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from devrt.errors import InvalidArgumentError

__all__ = [
    "Message",
    "bool_field",
    "bytes_field",
    "double_field",
    "fields",
    "float_field",
    "int_field",
    "ints",
    "packed",
]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MASK = (1 << 64) - 1


def _varint(value: int) -> bytes:
    value &= _MASK
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def int_field(number: int, value: int) -> bytes:
    """Return an integer field."""
    return _varint(number << 3 | _VARINT) + _varint(value)


def bool_field(number: int, value: bool) -> bytes:
    """Return a bool field; nothing for false, which is the default."""
    return int_field(number, 1) if value else b""


def double_field(number: int, value: float) -> bytes:
    """Return a field of a double."""
    return _varint(number << 3 | _FIXED64) + struct.pack("<d", value)


def float_field(number: int, value: float) -> bytes:
    """Return a field of a float; nothing for zero, which is the default."""
    return _varint(number << 3 | _FIXED32) + struct.pack("<f", value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """Return a field of bytes, a string or a message."""
    return _varint(number << 3 | _LENGTH) + _varint(len(value)) + value


def packed(number: int, values: Iterable[int]) -> bytes:
    """Return a repeated field of integers."""
    return bytes_field(number, b"".join(map(_varint, values)))


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield each field of a message: its number, and its value, a view for what has a length.

    Raises `InvalidArgumentError` if the bytes are no message.
    """
    view = memoryview(data)
    at, end = 0, len(view)
    while at < end:
        tag, at = _read(view, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _read(view, at)
            yield tag >> 3, value
            continue
        if kind == _LENGTH:
            length, at = _read(view, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise _broken(f"wire type {kind}")
        if at + length > end:
            raise _broken("a field reaches past the end")
        yield tag >> 3, view[at : at + length]
        at += length


def ints(value: int | bytes | memoryview) -> list[int]:
    """Return the integers of one occurrence of a repeated field, packed or not."""
    if isinstance(value, int):
        return [_signed(value)]
    view = memoryview(value)
    found, at = [], 0
    while at < len(view):
        number, at = _read(view, at)
        found.append(_signed(number))
    return found


class Message:
    """The fields of a message by their numbers; one that is absent has its default.

    A message in it is read when it is requested. Raises `InvalidArgumentError` if the bytes are
    none.
    """

    __slots__ = ("_fields",)

    def __init__(self, data: bytes | memoryview) -> None:
        self._fields: dict[int, list[int | memoryview]] = {}
        for number, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def number(self, number: int) -> int:
        """Return an integer field; the last counts where there are several."""
        value = self._fields.get(number, (0,))[-1]
        return value if isinstance(value, int) else 0

    def real(self, number: int) -> float:
        """Return a field of a float or of a double."""
        value = self.part(number)
        if not value:
            return 0.0
        found: float = struct.unpack("<f" if len(value) == 4 else "<d", value)[0]
        return found

    def ints(self, number: int) -> list[int]:
        """Return a repeated field of integers."""
        return [one for value in self._fields.get(number, ()) for one in ints(value)]

    def parts(self, number: int) -> list[memoryview]:
        """Return a repeated field of bytes, strings or messages."""
        return [v for v in self._fields.get(number, ()) if not isinstance(v, int)]

    def part(self, number: int) -> memoryview:
        """Return a field of bytes, a string or a message."""
        return (self.parts(number) or [memoryview(b"")])[-1]

    def text(self, number: int) -> str:
        """Return a string."""
        return bytes(self.part(number)).decode(errors="replace")

    def message(self, number: int) -> Message:
        """Return a message in this one."""
        return Message(self.part(number))

    def messages(self, number: int) -> list[Message]:
        """Return a repeated field of messages."""
        return [Message(part) for part in self.parts(number)]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _read(view: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(view) and shift < 70:
        byte = view[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise _broken("a number is cut short")


def _broken(what: str) -> InvalidArgumentError:
    msg = f"these bytes are no protobuf message: {what}. They are cut short or of another format."
    return InvalidArgumentError(msg)
