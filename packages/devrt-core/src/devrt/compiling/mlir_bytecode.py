"""MLIR's bytecode: its sections, strings, dialects, attributes, types and properties.

Source: https://mlir.llvm.org/docs/BytecodeFormat, and the numbers of attributes and types in the
builtin dialect and in VHLO, StableHLO's portable form. What is not as it must be raises one of
`UNREADABLE`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["MAGIC", "UNREADABLE", "Bytecode", "Reader"]

MAGIC = b"ML\xefR"
UNREADABLE = (ArithmeticError, LookupError, RecursionError, ValueError)
_STRINGS, _DIALECTS, _ENTRIES, _OFFSETS, _OPERATIONS, _PROPERTIES = 0, 1, 2, 3, 4, 8  # sections
# Versions of the format: from when dialects have versions, and names of operations are counted and
# say whether they are registered.
_SAYS_VERSION, _SAYS_HOW_MANY, _SAYS_REGISTERED = 1, 4, 5

_LONGEST, _MOST = 200, 32  # a name, and names of one array, that are looked at

# Kinds of attributes and of types, by dialect. Those that name others name them by number.
_ARRAYS = {("builtin", 0), ("vhlo", 1)}
_DICTIONARIES = {("builtin", 1), ("vhlo", 6)}
_TEXTS = {("builtin", 2), ("vhlo", 14)}
_SYMBOL, _INTEGER = ("builtin", 4), ("builtin", 8)
_TYPE_ATTRIBUTES = {("builtin", 6), ("vhlo", 17)}
_MESH = ("sdy", 2)
_FUNCTION_TYPES = {("builtin", 2), ("vhlo", 8)}
_TUPLES = {("builtin", 15), ("vhlo", 23)}
_QUANTISED = {("vhlo", 24), ("vhlo", 30)}  # of a tensor, and of each of an axis
_ELEMENTS = {("builtin", 18), ("vhlo", 15)}
_TENSORS = {("builtin", 13), ("builtin", 14), ("vhlo", 20), ("vhlo", 21)}
_SYMBOLIC = 2**64 - 1  # the least signed number of 64 bits, as it is encoded
_ENCODED_TENSOR = ("builtin", 14)
_FLOATS = {("builtin", 3 + n): name for n, name in enumerate((b"bf16", b"f16", b"f32", b"f64"))}
_BUILTIN_COMPLEX = ("builtin", 9)
_BUILTIN_INTEGER, _VHLO_BOOLEAN, _ONE_BIT = ("builtin", 0), ("vhlo", 0), 1
_EMPTY_TEXT = re.compile(rb"tensor<(?:\d+x)*0x")
_TUPLE_TEXT, _BOOLEAN_TEXT = re.compile(rb"\btuple<"), re.compile(rb"[<x]i1>")


class Reader:
    """A place in some bytes."""

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self.data = data
        self.at = at

    def take(self, count: int) -> bytes | memoryview:
        """Read some bytes."""
        if count > len(self.data) - self.at:
            raise IndexError(count)
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self) -> int:
        """Read a number whose first byte says, by its trailing zeros, how many bytes follow."""
        first = self.data[self.at]
        if first & 1:  # as most are
            self.at += 1
            return first >> 1
        more = (first & -first).bit_length() - 1 if first else 8
        value = int.from_bytes(self.take(more + 1), "little")
        return value >> (more + 1) if first else value >> 8

    def numbers(self) -> list[int]:
        """Read a list of numbers."""
        return [self.number() for _ in range(self.number())]

    def signed(self) -> int:
        """Read a number that may be below 0."""
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def inner(self) -> Reader:
        """Return a place in the section that begins here, and pass over it."""
        kind = self.take(1)[0]
        length = self.number()
        if kind & 0x80:
            _align(self)
        inside = Reader(self.data, self.at)  # no copy, which each section within would repeat
        self.at += length
        return inside


def _align(reader: Reader) -> None:
    alignment = reader.number()
    if not alignment:
        raise ValueError("a section of the bytecode is aligned to nothing")
    reader.at += -reader.at % alignment


class _Entry(NamedTuple):
    """An attribute or a type: its dialect, and its encoding, which may be its text."""

    dialect: str
    data: bytes | memoryview
    is_encoded: bool

    def kind(self) -> tuple[tuple[str, int], Reader]:
        """Return its dialect and its number there, and where what it is made of follows."""
        reader = Reader(self.data)
        number = reader.number() if self.is_encoded and len(self.data) else -1
        return (self.dialect, number), reader


class Bytecode:
    """The tables of a module, which its operations refer to by number."""

    def __init__(self, code: bytes) -> None:
        self.version = Reader(code, len(MAGIC)).number()
        sections = dict(_sections(code))
        self.strings = _strings(Reader(sections[_STRINGS]))
        self._items: dict[int, dict[bytes, int]] = {}
        self._read_dialects(Reader(sections[_DIALECTS]))
        self._read_entries(Reader(sections[_OFFSETS]), Reader(sections[_ENTRIES]))
        self.operations = bytes(sections[_OPERATIONS])
        self._properties = _properties(Reader(sections.get(_PROPERTIES, b"\1")))

    def _read_dialects(self, reader: Reader) -> None:
        """Read the names of dialects, and those of operations, which follow them."""
        self.dialects = []
        for _ in range(reader.number()):
            entry = reader.number()
            if self.version < _SAYS_VERSION:
                entry <<= 1
            self.dialects.append(self._name(entry >> 1))
            if entry & 1:
                reader.take(reader.number())
        self.names: list[str] = []
        self.groups: list[tuple[str, int, int]] = []  # their dialect, and where that is written
        if self.version >= _SAYS_HOW_MANY:
            reader.number()  # how many there are
        while reader.at < len(reader.data):
            begin = reader.at
            dialect = self.dialects[reader.number()]
            self.groups.append((dialect, begin, reader.at))
            for entry in reader.numbers():
                name = entry >> 1 if self.version >= _SAYS_REGISTERED else entry
                self.names.append(f"{dialect}.{self._name(name)}")

    def _name(self, number: int) -> str:
        """Return a string that is a name; of a long one, which many may share, the beginning."""
        return self.strings[number][:_LONGEST].decode(errors="replace")

    def _read_entries(self, offsets: Reader, data: Reader) -> None:
        attributes, types = offsets.number(), offsets.number()
        found: list[_Entry] = []
        while len(found) < attributes + types:
            dialect = self.dialects[offsets.number()]
            for entry in offsets.numbers():
                found.append(_Entry(dialect, data.take(entry >> 1), bool(entry & 1)))
        self._attributes, self._types = found[:attributes], found[attributes:]

    # -- attributes ---------------------------------------------------------------------------

    def property(self, properties: int, which: int) -> int:
        """Return one of an operation's properties, which are numbers in their names' order."""
        reader = Reader(self._properties[properties])
        return [reader.number() for _ in range(which + 1)][-1]

    def texts(self, number: int) -> list[bytes]:
        """Return the names that an attribute is: a string, a symbol, or an array of them.

        Of a long array, which many operations may share, those at its beginning.
        """
        kind, reader = self._attributes[number].kind()
        if kind in _ARRAYS:
            count = min(reader.number(), _MOST)
            return [text for _ in range(count) for text in self._text(reader.number())]
        return self._text(reader.number() if kind == _SYMBOL else number)

    def _text(self, number: int) -> list[bytes]:
        kind, reader = self._attributes[number].kind()
        if kind == _SYMBOL:
            kind, reader = self._attributes[reader.number()].kind()
        return [self.strings[reader.number()]] if kind in _TEXTS else []

    def dictionaries(self, number: int) -> list[dict[bytes, int]]:
        """Return the dictionaries in an array of them."""
        kind, reader = self._attributes[number].kind()
        return [self.items(each) for each in reader.numbers()] if kind in _ARRAYS else []

    def items(self, number: int) -> dict[bytes, int]:
        """Return a dictionary of the numbers of its values; nothing of what is none."""
        if number not in self._items:  # many operations may share one
            self._items[number] = self._read_items(number)
        return self._items[number]

    def _read_items(self, number: int) -> dict[bytes, int]:
        kind, reader = self._attributes[number].kind()
        if kind not in _DICTIONARIES:
            return {}
        pairs = [(reader.number(), reader.number()) for _ in range(reader.number())]
        return {name: value for key, value in pairs for name in self._text(key)}

    def integers(self, names: set[bytes]) -> dict[bytes, int]:
        """Return what dictionaries give as some names, where that is an integer."""
        found = {}
        for number, entry in enumerate(self._attributes):
            if entry.dialect == "builtin":
                items = self.items(number)
                found.update({n: self._integer(items[n]) for n in names & items.keys()})
        return {name: value for name, value in found.items() if value is not None}

    def _integer(self, number: int) -> int | None:
        kind, reader = self._attributes[number].kind()
        if kind != _INTEGER:
            return None
        reader.number()  # its type
        is_byte = len(reader.data) - reader.at == 1 and reader.data[-1] == 0
        return 0 if is_byte else reader.signed()

    def meshes(self) -> list[tuple[tuple[str, int], ...]]:
        """Return the axes, by name and size, of Shardy's meshes."""
        kinds = (entry.kind() for entry in self._attributes)
        return [
            tuple(self._axis(axis) for axis in reader.numbers())
            for kind, reader in kinds
            if kind == _MESH
        ]

    def _axis(self, number: int) -> tuple[str, int]:
        (_, kind), reader = self._attributes[number].kind()
        if kind != 1:
            raise ValueError(number)
        return self._name(reader.number()), reader.signed()

    # -- types --------------------------------------------------------------------------------

    def is_boolean(self, number: int, *, is_element: bool = False) -> bool:
        """Return whether a type is that of booleans, or of a tensor of them."""
        if not 0 <= number < len(self._types):
            return False
        entry = self._types[number]
        if not entry.is_encoded:
            return _BOOLEAN_TEXT.search(entry.data) is not None
        kind, reader = entry.kind()
        if kind in _TENSORS:  # whose elements are no tensors
            return not is_element and self.is_boolean(_element(kind, reader), is_element=True)
        return kind == _VHLO_BOOLEAN or (
            kind == _BUILTIN_INTEGER and reader.number() >> 2 == _ONE_BIT
        )

    def tensor_text(self, number: int) -> bytes:
        """Return a tensor's extents and element type as text, such as ``2x5xf32``.

        Of what is none of the builtin dialect's, or has other elements, it has no known form.
        """
        kind, reader = self._types[number].kind()
        if kind not in _TENSORS:
            return b"?"
        extents = _extents(kind, reader)
        return b"".join([*(b"%dx" % (n >> 1) for n in extents), self._scalar(reader.number())])

    def _scalar(self, number: int) -> bytes:
        entry = self._types[number]
        if not entry.is_encoded:
            return bytes(entry.data).rstrip(b"\0")
        kind, reader = entry.kind()
        if kind == _BUILTIN_INTEGER:
            return b"i%d" % (reader.number() >> 2)
        if kind == _BUILTIN_COMPLEX:
            return b"complex<%b>" % self._scalar(reader.number())
        return _FLOATS.get(kind, b"?")

    def has_quantised(self) -> bool:
        """Return whether the module has quantised types."""
        return any(e.dialect == "quant" or e.kind()[0] in _QUANTISED for e in self._types)

    def is_empty(self, attribute: int) -> bool:
        """Return whether an attribute is a tensor without elements."""
        entry = self._attributes[attribute]
        if not entry.is_encoded:
            return _EMPTY_TEXT.search(entry.data) is not None
        kind, reader = entry.kind()
        if kind not in _ELEMENTS:
            return False
        entry = self._types[reader.number()]
        if not entry.is_encoded:
            return _EMPTY_TEXT.search(entry.data) is not None
        kind, reader = entry.kind()
        return kind in _TENSORS and 0 in _extents(kind, reader)

    def has_tuples(self, attribute: int) -> bool:
        """Return whether an attribute is the type of a function that takes or gives a tuple."""
        inputs, outputs = self._signature(attribute)
        return any(self._is_tuple(each) for each in [*inputs, *outputs])

    def symbolic(self, attribute: int) -> tuple[int, str] | None:
        """Return the first parameter with a symbolic dimension, by number, and its shape."""
        for number, each in enumerate(self._signature(attribute)[0]):
            kind, reader = self._types[each].kind()
            extents = _extents(kind, reader) if kind in _TENSORS else []
            if _SYMBOLIC in extents:
                sizes = ("?" if size == _SYMBOLIC else str(size >> 1) for size in extents)
                return number, ", ".join(sizes)
        return None

    def _signature(self, attribute: int) -> tuple[list[int], list[int]]:
        """Return the types that a function takes and gives, by the attribute that is its type."""
        kind, reader = self._attributes[attribute].kind()
        if kind not in _TYPE_ATTRIBUTES:
            return [], []
        kind, reader = self._types[reader.number()].kind()
        return (reader.numbers(), reader.numbers()) if kind in _FUNCTION_TYPES else ([], [])

    def _is_tuple(self, number: int) -> bool:
        entry = self._types[number]
        if not entry.is_encoded:
            return _TUPLE_TEXT.match(entry.data) is not None
        return entry.kind()[0] in _TUPLES


def _element(kind: tuple[str, int], reader: Reader) -> int:
    """Return the number of a tensor's element type."""
    _extents(kind, reader)
    return reader.number()


def _extents(kind: tuple[str, int], reader: Reader) -> list[int]:
    """Return a tensor's extents as they are encoded: 0 is 0."""
    if kind == _ENCODED_TENSOR:
        reader.number()  # the encoding, which VHLO has at the end
    return reader.numbers()


def _sections(code: bytes) -> Iterator[tuple[int, bytes | memoryview]]:
    """Yield the kind and the contents of each section."""
    reader = Reader(memoryview(code), len(MAGIC))
    reader.number()  # the version
    reader.at = code.index(b"\0", reader.at) + 1  # the producer
    while reader.at < len(code):
        kind = reader.take(1)[0]
        length = reader.number()
        if kind & 0x80:
            _align(reader)
        yield kind & 0x7F, reader.take(length)


def _properties(reader: Reader) -> list[bytes | memoryview]:
    return [reader.take(reader.number()) for _ in range(reader.number())]


def _strings(reader: Reader) -> list[bytes]:
    lengths = reader.numbers()
    return [bytes(reader.take(n))[:-1] for n in reversed(lengths)]
