"""The types in MLIR's bytecode that a compiler does not survive, and where they are.

Types are read as far as that needs: the two dialects' tensors and their elements. Operations are
walked with the numbers of the values that they define, so that the type of an operand is known.
Source: https://mlir.llvm.org/docs/BytecodeFormat, and the numbers of types in the builtin dialect
and in VHLO, StableHLO's portable form.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from devrt.compiling.stablehlo import _Bytecode, _Reader

__all__ = ["has_six_bit_floats", "makes_or_reads_booleans"]

_TYPES, _DATA, _IR, _DIALECTS = 3, 2, 4, 1  # sections: of offsets, of encodings, of operations
_SIX_BITS = (38, 39)  # VHLO's numbers
_SIX_BIT_TEXT = re.compile(rb"f6E[23]M[23]FN")
_TENSORS = {"vhlo": (20, 21), "builtin": (13, 14)}
_INTEGER, _ONE_BIT, _VHLO_BOOLEAN = 0, 1, 0
_HAS_ATTRIBUTES, _HAS_RESULTS, _HAS_OPERANDS, _HAS_SUCCESSORS = 1, 2, 4, 8
_HAS_REGIONS, _HAS_ORDERS, _HAS_PROPERTIES = 16, 32, 64
_ORDERS_SINCE, _PLACES_SINCE = 3, 4  # versions of the format
_UNKNOWN = -1


def has_six_bit_floats(code: bytes) -> bool:
    """Return whether a module in bytecode has a floating-point type of six bits.

    Raises
    ------
    ArithmeticError, LookupError, ValueError, RecursionError
        If it cannot be read; the next function does, too.
    """
    types = _Types(_Bytecode(code))
    return any(types.is_six_bits(at) for at in range(len(types)))


def makes_or_reads_booleans(code: bytes, operation: str) -> bool:
    """Return whether some operation of a name has booleans as its operand or its result.

    Parameters
    ----------
    code
        A module in bytecode.
    operation
        The operation, as in ``"bitcast_convert"``.
    """
    if operation.encode() not in code:
        return False
    bytecode = _Bytecode(code)
    types = _Types(bytecode)
    names = {f"stablehlo.{operation}", f"vhlo.{operation}_v1"}
    found = set(_Walk(bytecode).types_of(names))
    return any(types.is_boolean(at) for at in found)


class _Types:
    """The types of a module, by their numbers."""

    def __init__(self, bytecode: _Bytecode) -> None:
        sections = bytecode._sections
        dialects = bytecode._dialects(_Reader(sections[_DIALECTS]))
        offsets, data = _Reader(sections[_TYPES]), _Reader(sections[_DATA])
        attributes, types = offsets.number(), offsets.number()
        found: list[tuple[str, bytes, bool]] = []
        while len(found) < attributes + types:
            dialect = dialects[offsets.number()]
            for _ in range(offsets.number()):
                entry = offsets.number()
                found.append((dialect, data.take(entry >> 1), bool(entry & 1)))
        self._found = found[attributes:]

    def __len__(self) -> int:
        return len(self._found)

    def is_six_bits(self, at: int) -> bool:
        dialect, data, is_encoded = self._found[at]
        if not is_encoded:
            return _SIX_BIT_TEXT.search(data) is not None
        return dialect == "vhlo" and _Reader(data).number() in _SIX_BITS

    def is_boolean(self, at: int, *, is_element: bool = False) -> bool:
        """Return whether a type is that of booleans, or of a tensor of them."""
        if not 0 <= at < len(self._found):
            return False
        dialect, data, is_encoded = self._found[at]
        if not is_encoded or dialect not in _TENSORS:
            return not is_encoded and re.search(rb"[<x]i1>", data) is not None
        reader = _Reader(data)
        kind = reader.number()
        if kind in _TENSORS[dialect]:  # whose elements are no tensors
            return not is_element and self.is_boolean(
                _element(reader, dialect, kind), is_element=True
            )
        if dialect == "vhlo":
            return kind == _VHLO_BOOLEAN
        return kind == _INTEGER and reader.number() >> 2 == _ONE_BIT


def _element(reader: _Reader, dialect: str, kind: int) -> int:
    """Return the number of a tensor's element type."""
    if dialect == "builtin" and kind == _TENSORS[dialect][1]:
        reader.number()  # the encoding, which VHLO has at the end
    for _ in range(reader.number()):
        reader.signed()
    return reader.number()


class _Numbers(_Reader):
    """A place in bytes that are mostly numbers of one byte."""

    def number(self) -> int:
        first = self.data[self.at]
        if not first & 1:
            return super().number()
        self.at += 1
        return first >> 1


class _Walk:
    """The operations of a module, in order, with the types of what they take and make."""

    def __init__(self, bytecode: _Bytecode) -> None:
        self._names = bytecode.operations()
        self._version = bytecode._version
        self._code = bytecode._sections[_IR]
        self._found: list[int] = []

    def types_of(self, names: set[str]) -> list[int]:
        """Return the numbers of the types of operands and results of some operations."""
        self._wanted = names
        self._block(_Numbers(self._code), _Scope())
        return self._found

    def _block(self, reader: _Reader, scope: _Scope) -> None:
        self._enter_block()
        encoding = reader.number()
        if encoding & 1:
            scope.define(self._arguments(reader))
        for _ in range(encoding >> 1):
            self._operation(reader, scope)

    def _arguments(self, reader: _Reader) -> list[int]:
        types = []
        for _ in range(reader.number()):
            kind = reader.number()
            if self._version < _PLACES_SINCE:
                reader.number()  # where it was written
            else:
                if kind & 1:
                    reader.number()
                kind >>= 1
            types.append(kind)
        if self._version >= _ORDERS_SINCE and reader.take(1) != b"\0":
            _skip_orders(reader, len(types))
        return types

    def _operation(self, reader: _Reader, scope: _Scope) -> None:
        name = self._names[reader.number()]
        mask = reader.take(1)[0]
        reader.number()  # where it was written
        if mask & _HAS_ATTRIBUTES:
            reader.number()
        properties = reader.number() if mask & _HAS_PROPERTIES else _UNKNOWN
        results = _numbers(reader) if mask & _HAS_RESULTS else []
        operands = _numbers(reader) if mask & _HAS_OPERANDS else []
        if mask & _HAS_SUCCESSORS:
            _numbers(reader)
        if mask & _HAS_ORDERS:
            _skip_orders(reader, len(results))
        if name in self._wanted:
            self._found += [*results, *(scope.type_of(value) for value in operands)]
        scope.define(results)
        self._enter(name, properties)
        if mask & _HAS_REGIONS:
            self._regions(reader, scope)
        self._leave()

    def _enter(self, name: str, properties: int) -> None:
        """See an operation, and the number of its properties, before its regions."""

    def _leave(self) -> None:
        """See the end of the operation that was entered last."""

    def _enter_block(self) -> None:
        """See a block of the operation that was entered last."""

    def _regions(self, reader: _Reader, scope: _Scope) -> None:
        encoding = reader.number()
        if encoding & 1:  # they see no values around them, and lie in one section since version 2
            scope = _Scope()
            reader = reader if self._version < 2 else _inner(reader)
        for _ in range(encoding >> 1):
            self._region(reader, scope)

    def _region(self, reader: _Reader, scope: _Scope) -> None:
        blocks = reader.number()
        if not blocks:
            return
        count = reader.number()
        if count > len(reader.data):  # each takes a byte at least
            raise ValueError(count)
        with scope.inner(count):
            for _ in range(blocks):
                self._block(reader, scope)


class _Scope:
    """The types of the values that operations can name, by their numbers."""

    def __init__(self) -> None:
        self._types: dict[int, int] = {}  # of those defined: what regions announce costs nothing
        self._size = 0
        self._next = [0]

    @contextmanager
    def inner(self, count: int) -> Iterator[None]:
        """Make numbers for the values of a region, which end with it."""
        outer = self._size
        self._next.append(outer)
        self._size += count
        yield
        for value in range(outer, self._next.pop()):
            del self._types[value]
        self._size = outer

    def define(self, types: list[int]) -> None:
        at = self._next[-1]
        self._types.update(enumerate(types, at))
        self._next[-1] += len(types)
        self._size = max(self._size, self._next[-1])

    def type_of(self, value: int) -> int:
        return self._types.get(value, _UNKNOWN)


def _numbers(reader: _Reader) -> list[int]:
    return [reader.number() for _ in range(reader.number())]


def _skip_orders(reader: _Reader, values: int) -> None:
    """Pass over the orders in which values are used, which only one that writes again needs."""
    for _ in range(reader.number() if values > 1 else 1):
        if values > 1:
            reader.number()
        encoding = reader.number()
        for _ in range(encoding >> 1):
            reader.number()


def _inner(reader: _Reader) -> _Reader:
    """Return a place in a section of its own: regions that see nothing around them."""
    kind = reader.take(1)[0]
    length = reader.number()
    if kind & 0x80:
        alignment = reader.number()
        reader.at += -reader.at % alignment
    inside = _Numbers(reader.data, reader.at)  # no copy, which each section within would repeat
    reader.at += length
    return inside
