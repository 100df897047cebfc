"""FlatBuffers: a reader of tables, for what other projects write in this format.

Source: the format's description at flatbuffers.dev. A table has numbered fields, which its vtable
places; offsets to tables, vectors and strings count forward from where they stand. Fields are read
when they are requested, and nothing is read outside of the bytes.
"""

from __future__ import annotations

import struct

from devrt.errors import InvalidArgumentError

__all__ = ["Table", "root"]

_OFFSET = struct.Struct("<I")
_SIGNED = struct.Struct("<i")
_SHORT = struct.Struct("<H")


def root(data: bytes | memoryview) -> Table:
    """Return the table that the bytes begin with.

    Raises
    ------
    InvalidArgumentError
        If there is none.
    """
    view = memoryview(data)
    return Table(view, _read(view, 0, _OFFSET))


def _read(view: memoryview, at: int, form: struct.Struct) -> int:
    if not 0 <= at <= len(view) - form.size:
        raise _broken("an offset leads out of the bytes")
    value: int = form.unpack_from(view, at)[0]
    return value


def _broken(why: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"the bytes are no FlatBuffer: {why}.")


class Table:
    """A table of a FlatBuffer; a field that is absent has its default.

    Parameters
    ----------
    view
        All bytes.
    at
        Where the table begins.

    Raises
    ------
    InvalidArgumentError
        From every method, if an offset leads out of the bytes.
    """

    def __init__(self, view: memoryview, at: int) -> None:
        self._view = view
        self._at = at
        self._vtable = at - _read(view, at, _SIGNED)
        self._size = _read(view, self._vtable, _SHORT)

    @property
    def num_fields(self) -> int:
        """How many fields the table's vtable has places for."""
        return max(0, (self._size - 4) // 2)

    def number(self, field: int, form: str = "B", default: int = 0) -> int:
        """Return a number, in the form of a character of `struct`."""
        at = self._place(field)
        return _read(self._view, at, struct.Struct(f"<{form}")) if at else default

    def table(self, field: int) -> Table | None:
        """Return a table; None if it is absent."""
        at = self._place(field)
        return Table(self._view, self._target(at)) if at else None

    def data(self, field: int) -> memoryview:
        """Return a vector of bytes, or a string's; empty if it is absent."""
        begin, count = self._vector(field, 1)
        return self._view[begin : begin + count]

    def text(self, field: int) -> str:
        """Return a string; empty if it is absent."""
        return _decoded(self.data(field))

    def numbers(self, field: int, form: str) -> list[int]:
        """Return a vector of numbers, in the form of a character of `struct`."""
        one = struct.Struct(f"<{form}")
        begin, count = self._vector(field, one.size)
        return [one.unpack_from(self._view, begin + i * one.size)[0] for i in range(count)]

    def tables(self, field: int) -> list[Table]:
        """Return a vector of tables."""
        return [Table(self._view, at) for at in self._targets(field)]

    def texts(self, field: int) -> list[str]:
        """Return a vector of strings."""
        return [self._text_at(at) for at in self._targets(field)]

    def _place(self, field: int) -> int:
        """Return where a field stands; 0 if it is absent."""
        if field >= self.num_fields:
            return 0
        offset = _read(self._view, self._vtable + 4 + 2 * field, _SHORT)
        return self._at + offset if offset else 0

    def _target(self, at: int) -> int:
        return at + _read(self._view, at, _OFFSET)

    def _vector(self, field: int, size: int) -> tuple[int, int]:
        """Return where a vector's elements begin, and how many there are."""
        at = self._place(field)
        return self._vector_at(self._target(at), size) if at else (0, 0)

    def _vector_at(self, at: int, size: int) -> tuple[int, int]:
        count = _read(self._view, at, _OFFSET)
        if count * size > len(self._view) - at - 4:
            raise _broken("a vector reaches past the end")
        return at + 4, count

    def _targets(self, field: int) -> list[int]:
        begin, count = self._vector(field, 4)
        return [self._target(begin + 4 * i) for i in range(count)]

    def _text_at(self, at: int) -> str:
        begin, count = self._vector_at(at, 1)
        return _decoded(self._view[begin : begin + count])


def _decoded(data: memoryview) -> str:
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise _broken("a string is no UTF-8") from error
