"""The functions of a program in MLIR's bytecode, and which of them call which.

The attributes that name functions are operations' properties: numbers of attributes in the order of
the properties' names, in VHLO and in the ``func`` dialect.
"""

from __future__ import annotations

from devrt.compiling.bytecode_types import _Walk
from devrt.compiling.program_facts import Function, ProgramText
from devrt.compiling.stablehlo import _Bytecode, _Reader

__all__ = ["functions"]

_PROPERTIES = 8  # the section
_VHLO_ARRAY, _VHLO_STRING, _STRING, _SYMBOL = 1, 14, 2, 4
_OWN_NAMES = {"vhlo.func_v1": 3, "func.func": 4}  # which of the properties it is
_CALLEES = {
    "vhlo.call_v1": 0,
    "func.call": 1,
    "vhlo.composite_v1": 1,
    "vhlo.composite_v2": 1,
    "vhlo.custom_call_v1": 3,
}


def functions(code: bytes) -> ProgramText:
    """Return a program with its functions alone.

    Raises
    ------
    ArithmeticError, LookupError, ValueError, RecursionError
        If it cannot be read.
    """
    bytecode = _Bytecode(code)
    walk = _Calls(bytecode)
    walk.types_of(set())
    return ProgramText(functions=walk.functions)


class _Calls(_Walk):
    """The operations of a module, with the functions that they are in."""

    def __init__(self, bytecode: _Bytecode) -> None:
        super().__init__(bytecode)
        self.functions: list[Function] = []
        self._bytecode = bytecode
        self._properties = _entries(bytecode._sections.get(_PROPERTIES, b""))
        self._inside: list[tuple[int, Function | None]] = [(0, None)]
        self._modules = 0

    def _enter(self, name: str, properties: int) -> None:
        module, function = self._inside[-1]
        if name in _OWN_NAMES:
            found = self._names_in(properties, _OWN_NAMES[name])
            function = Function(b"".join(found[:1]), False, module, 0)
            if function.name:
                self.functions.append(function)
        elif name == "builtin.module":
            self._modules += 1
            module, function = self._modules, None
        elif name in _CALLEES and function is not None:
            function.calls.update(self._names_in(properties, _CALLEES[name]))
        self._inside.append((module, function))

    def _leave(self) -> None:
        self._inside.pop()

    def _enter_block(self) -> None:
        function = self._inside[-1][1]
        if function is not None:
            function.has_body = True

    def _names_in(self, properties: int, which: int) -> list[bytes]:
        if properties < 0:  # older bytecode, which has them among the attributes
            return []
        reader = _Reader(self._properties[properties])
        for _ in range(which):
            reader.number()
        return self._names_of(reader.number())

    def _names_of(self, attribute: int, *, is_element: bool = False) -> list[bytes]:
        """Return the names that an attribute is: a string, a symbol, or an array of them."""
        dialect, encoded = self._bytecode.attributes[attribute]
        reader = _Reader(encoded)
        kind = reader.number()
        if (dialect, kind) in (("vhlo", _VHLO_STRING), ("builtin", _STRING)):
            return [self._bytecode._strings[reader.number()].encode()]
        if is_element:
            return []
        if (dialect, kind) == ("builtin", _SYMBOL):
            return self._names_of(reader.number(), is_element=True)
        if (dialect, kind) == ("vhlo", _VHLO_ARRAY):
            found = (
                self._names_of(reader.number(), is_element=True) for _ in range(reader.number())
            )
            return [name for names in found for name in names]
        return []


def _entries(section: bytes) -> list[bytes]:
    if not section:
        return []
    reader = _Reader(section)
    return [reader.take(reader.number()) for _ in range(reader.number())]
