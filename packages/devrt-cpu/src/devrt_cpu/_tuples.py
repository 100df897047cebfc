"""Programs whose function takes or gives tuples: the same with their elements one by one.

XLA's plugin has no buffers for tuples. It refuses most such programs without saying so, and ends
the process where one of the others is called.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator

from devrt.compiling.mlir_tokens import SIGN, end_of_group, end_of_type, skip_space, split
from devrt.compiling.program_facts import Function
from devrt.compiling.program_text import read_text
from devrt.errors import UnimplementedError

__all__ = ["without_tuples"]

_INNER = "devrt_main_of_tuples"
_ALIAS = "!devrt_tuple"
_PARAMETER = re.compile(rb"\s*(%[\w.$-]+)\s*:\s*")
_DEEPEST = 64  # of tuples within each other: far more than programs have


def without_tuples(code: bytes) -> bytes:
    """Return a program, as text, with each tuple's elements as parameters and results of their own.

    Parameters
    ----------
    code
        StableHLO as text. Programs without tuples are returned as they are, and so are those whose
        function cannot be read: the compiler says what is wrong.

    Raises
    ------
    UnimplementedError
        If a tuple has attributes, such as a sharding, which say nothing of its elements; or tuples
        are nested too deep.
    """
    if b"tuple<" not in code:
        return code
    main = read_text(code).main()
    if main is None or main.parameters < 0:
        return code
    signature = _read(code, main)
    if signature is None or not signature.has_tuples():
        return code
    body = skip_space(code, signature.end)
    if code.startswith(b"attributes", body):
        body = skip_space(code, end_of_group(code, skip_space(code, body + 10)))
    end = end_of_group(code, body) if code.startswith(b"{", body) else 0
    if not code.endswith(b"}", 0, end):
        return code
    # In one line, so that those of the compiler's messages stay what they are.
    inner = f"func.func private @{_INNER}({signature.inner()}" + "\n" * signature.lines
    return b"".join(
        [
            _bytes("".join(f"{line} " for line in signature.types.lines)),
            code[: main.at],
            _bytes(inner),
            code[signature.end : end],
            _bytes(f"\n{signature.outer()}"),
            code[end:],
        ]
    )


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _text(code: bytes) -> str:
    return code.decode(errors="surrogateescape").strip()


@dataclasses.dataclass(frozen=True)
class _Type:
    """A type as it is written, and those of its elements if it is a tuple."""

    text: str
    elements: tuple[_Type, ...] | None = None


class _Types:
    """The tuples of a program, by short names: each would be written once for every element."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def read(self, code: bytes) -> _Type:
        """Return a type, which is read in one pass however deep its tuples are nested."""
        open_: list[list[_Type] | None] = []  # the elements so far, or None in another bracket
        begin, made = 0, None
        for found in SIGN.finditer(code):
            sign, at = found.group(), found.start()
            in_tuple = bool(open_) and open_[-1] is not None
            is_tuple = at - begin == 5 and code.startswith(b"tuple", begin)
            if sign == b"<" and is_tuple and (in_tuple or not open_):
                _check_depth(len(open_))
                open_.append([])
                begin, made = skip_space(code, found.end()), None
            elif sign in (b"(", b"{", b"[", b"<"):
                open_.append(None)
            elif sign in (b")", b"}", b"]", b">", b",") and in_tuple:
                elements = open_[-1] or []
                if made is not None or code[begin:at].strip():
                    elements.append(made or _Type(_text(code[begin:at])))
                open_[-1], begin, made = elements, skip_space(code, found.end()), None
                if sign != b",":
                    open_.pop()
                    made = self._name(elements)
            elif sign in (b")", b"}", b"]", b">") and open_:
                open_.pop()
        return made if made is not None and not open_ else _Type(_text(code))

    def _name(self, elements: list[_Type]) -> _Type:
        name = f"{_ALIAS}{len(self.lines)}"
        self.lines.append(f"{name} = tuple<{', '.join(each.text for each in elements)}>")
        return _Type(name, tuple(elements))


def _check_depth(depth: int) -> None:
    if depth >= _DEEPEST:
        msg = (
            f"the program's tuples are nested deeper than {_DEEPEST}. Export it with the elements "
            "as values of their own."
        )
        raise UnimplementedError(msg, operation="compile_and_load", platform="cpu")


@dataclasses.dataclass(frozen=True)
class _Value:
    name: str
    type: _Type
    attributes: str


@dataclasses.dataclass(frozen=True)
class _Signature:
    parameters: list[_Value]
    results: list[_Value]
    types: _Types
    end: int
    lines: int

    def has_tuples(self) -> bool:
        values = (*self.parameters, *self.results)
        return any(value.type.elements is not None for value in values)

    def inner(self) -> str:
        """Return what follows the name of the function that takes the tuples."""
        parameters = ", ".join(f"{value.name}: {value.type.text}" for value in self.parameters)
        return f"{parameters}) -> ({', '.join(value.type.text for value in self.results)}) "

    def outer(self) -> str:
        """Return the function that takes the elements."""
        writer = _Writer()
        given = [writer.take(value) for value in self.parameters]
        types = ", ".join(value.type.text for value in self.parameters)
        results = ", ".join(value.type.text for value in self.results)
        names = [f"%r#{i}" if len(self.results) > 1 else "%r" for i in range(len(self.results))]
        bound = f"%r:{len(names)} = " if len(names) > 1 else "%r = " if names else ""
        writer.lines.append(
            f"{bound}func.call @{_INNER}({', '.join(given)}) : ({types}) -> ({results})"
        )
        for name, value in zip(names, self.results, strict=True):
            writer.give(name, value)
        return writer.function()


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._parameters: list[str] = []
        self._results: list[tuple[str, str, str]] = []
        self._names = (f"%t{i}" for i in itertools.count())

    def take(self, value: _Value) -> str:
        """Return the name of a parameter of the inner function, made of those of this one."""
        if value.type.elements is None:
            name = next(self._names)
            self._parameters.append(f"{name}: {value.type.text}{value.attributes}")
            return name
        parts = [self.take(part) for part in _elements(value)]
        name = next(self._names)
        self.lines.append(f"{name} = stablehlo.tuple {', '.join(parts)} : {value.type.text}")
        return name

    def give(self, name: str, value: _Value) -> None:
        """Make results of this function of one of the inner function's."""
        if value.type.elements is None:
            self._results.append((name, value.type.text, value.attributes))
            return
        for at, part in enumerate(_elements(value)):
            made = next(self._names)
            types = f"({value.type.text}) -> {part.type.text}"
            self.lines.append(f"{made} = stablehlo.get_tuple_element {name}[{at}] : {types}")
            self.give(made, part)

    def function(self) -> str:
        results = ", ".join(kind + attributes for _, kind, attributes in self._results)
        values = ", ".join(name for name, _, _ in self._results)
        types = ", ".join(kind for _, kind, _ in self._results)
        last = f"return {values} : {types}" if values else "return"
        body = "\n".join(f"  {line}" for line in (*self.lines, last))
        return (
            f"func.func public @main({', '.join(self._parameters)}) -> ({results}) {{\n{body}\n}}\n"
        )


def _elements(value: _Value) -> Iterator[_Value]:
    if value.attributes:
        msg = (
            f"the program's {value.name} is a tuple with attributes ({value.attributes.strip()}), "
            "which say nothing of its elements. Export it with the elements as values of their own."
        )
        raise UnimplementedError(msg, operation="compile_and_load", platform="cpu")
    for at, kind in enumerate(value.type.elements or ()):
        yield _Value(f"{value.name}[{at}]", kind, "")


def _read(code: bytes, main: Function) -> _Signature | None:
    types = _Types()
    begin = main.parameters
    close = end_of_group(code, begin)
    parameters = []
    for part in _parts(code[begin + 1 : close - 1]):
        found = _PARAMETER.match(part)
        if found is None:
            return None
        parameters.append(_value(types, _text(found[1]), part[found.end() :]))
    at = skip_space(code, close)
    results = []
    if code.startswith(b"->", at):
        begin = skip_space(code, at + 2)
        is_list = code.startswith(b"(", begin)
        at = end_of_group(code, begin) if is_list else end_of_type(code, begin)
        listed = _parts(code[begin + 1 : at - 1]) if is_list else [code[begin:at]]
        results = [_value(types, f"result {i}", part) for i, part in enumerate(listed)]
    return _Signature(parameters, results, types, at, code.count(b"\n", main.at, at))


def _parts(code: bytes) -> list[bytes]:
    return [part.strip() for part in split(code) if part.strip()]


def _value(types: _Types, name: str, code: bytes) -> _Value:
    end = end_of_type(code, 0)
    attributes = code[end:].decode(errors="surrogateescape").rstrip()
    return _Value(name, types.read(code[:end]), attributes)
