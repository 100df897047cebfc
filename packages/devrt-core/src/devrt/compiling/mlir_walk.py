"""The operations in MLIR's bytecode, in order, with the types of the values that they name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from devrt.compiling.mlir_bytecode import Bytecode, Reader

__all__ = ["UNKNOWN", "Operation", "Walk"]

_HAS_ATTRIBUTES, _HAS_RESULTS, _HAS_OPERANDS, _HAS_SUCCESSORS = 1, 2, 4, 8
_HAS_REGIONS, _HAS_ORDERS, _HAS_PROPERTIES = 16, 32, 64
_SECTIONS_SINCE, _ORDERS_SINCE, _LOCATIONS_SINCE = 2, 3, 4  # versions of the format
UNKNOWN = -1


class Operation(NamedTuple):
    """An operation as bytecode has it: by number, its attributes, properties and values' types."""

    name: str
    attributes: int
    properties: int
    results: list[int]
    operands: list[int]


class Walk:
    """Goes through the operations of a module; who derives from it sees them."""

    def __init__(self, bytecode: Bytecode) -> None:
        self.bytecode = bytecode
        self._version = bytecode.version

    def enter(self, operation: Operation) -> None:
        """See an operation before its regions."""

    def leave(self) -> None:
        """See the end of the operation that was entered last."""

    def enter_block(self) -> None:
        """See a block of the operation that was entered last."""

    def run(self) -> None:
        """Go through all operations."""
        self._block(Reader(self.bytecode.operations), _Scope())

    def _block(self, reader: Reader, scope: _Scope) -> None:
        self.enter_block()
        encoding = reader.number()
        if encoding & 1:
            scope.define(self._arguments(reader))
        for _ in range(encoding >> 1):
            self._operation(reader, scope)

    def _arguments(self, reader: Reader) -> list[int]:
        types = []
        for _ in range(reader.number()):
            kind = reader.number()
            if self._version < _LOCATIONS_SINCE:
                reader.number()
            else:
                if kind & 1:
                    reader.number()
                kind >>= 1
            types.append(kind)
        if self._version >= _ORDERS_SINCE and reader.take(1) != b"\0":
            _skip_orders(reader, len(types))
        return types

    def _operation(self, reader: Reader, scope: _Scope) -> None:
        name = self.bytecode.names[reader.number()]
        mask = reader.take(1)[0]
        reader.number()  # its location
        attributes = reader.number() if mask & _HAS_ATTRIBUTES else UNKNOWN
        properties = reader.number() if mask & _HAS_PROPERTIES else UNKNOWN
        results = reader.numbers() if mask & _HAS_RESULTS else []
        operands = scope.types_of(reader.numbers()) if mask & _HAS_OPERANDS else []
        if mask & _HAS_SUCCESSORS:
            reader.numbers()
        if mask & _HAS_ORDERS:
            _skip_orders(reader, len(results))
        scope.define(results)
        self.enter(Operation(name, attributes, properties, results, operands))
        if mask & _HAS_REGIONS:
            self._regions(reader, scope)
        self.leave()

    def _regions(self, reader: Reader, scope: _Scope) -> None:
        encoding = reader.number()
        if encoding & 1:  # they see no values around them, and lie in a section of their own
            scope = _Scope()
            reader = reader if self._version < _SECTIONS_SINCE else reader.inner()
        for _ in range(encoding >> 1):
            self._region(reader, scope)

    def _region(self, reader: Reader, scope: _Scope) -> None:
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

    def types_of(self, values: list[int]) -> list[int]:
        return [self._types.get(value, UNKNOWN) for value in values]


def _skip_orders(reader: Reader, values: int) -> None:
    """Pass over the orders in which values are used, which only one that writes again needs."""
    for _ in range(reader.number() if values > 1 else 1):
        if values > 1:
            reader.number()
        encoding = reader.number()
        for _ in range(encoding >> 1):
            reader.number()
