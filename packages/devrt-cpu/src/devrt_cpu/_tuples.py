"""Programs whose function takes or gives tuples: the same with their elements one by one.

XLA's plugin has no buffers for tuples. It refuses most such programs without saying so, and ends
the process where one of the others is called.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator

from devrt.errors import UnimplementedError

__all__ = ["without_tuples"]

_MAIN = re.compile(r"\bfunc\.func\s+(?:public\s+)?@main\s*\(")
_INNER = "devrt_main_of_tuples"
_PAIRS = {"(": ")", "{": "}", "[": "]", "<": ">"}
_NEXT = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|->|[(){}\[\]<>,]')
_SPACE = re.compile(r"(?:\s|//[^\n]*)*")
_PARAMETER = re.compile(r"\s*(%[\w.$-]+)\s*:\s*")


def without_tuples(code: bytes) -> bytes:
    """Return a program, as text, with each tuple's elements as parameters and results of their own.

    Parameters
    ----------
    code
        StableHLO as text. Programs without tuples are returned as they are.

    Raises
    ------
    UnimplementedError
        If a tuple has attributes, such as a sharding, which say nothing of its elements.
    """
    if b"tuple<" not in code:
        return code
    text = code.decode(errors="surrogateescape")
    head = _MAIN.search(text)
    if head is None:
        return code
    signature = _read(text, head)
    if signature is None or not signature.has_tuples():
        return code
    inner = text[: head.start()] + f"func.func private @{_INNER}(" + signature.inner(text)
    end = _end_of_group(inner, inner.index("{", _body_of(inner, head.start())))
    return (inner[:end] + "\n" + signature.outer() + inner[end:]).encode(errors="surrogateescape")


@dataclasses.dataclass(frozen=True)
class _Value:
    name: str
    type: str
    attributes: str

    def is_tuple(self) -> bool:
        return self.type.startswith("tuple<")


@dataclasses.dataclass(frozen=True)
class _Signature:
    parameters: list[_Value]
    results: list[_Value]
    begin: int
    end: int

    def has_tuples(self) -> bool:
        return any(value.is_tuple() for value in (*self.parameters, *self.results))

    def inner(self, text: str) -> str:
        """Return what follows the name of the function that takes the tuples."""
        parameters = ", ".join(f"{value.name}: {value.type}" for value in self.parameters)
        results = ", ".join(value.type for value in self.results)
        lines = "\n" * text.count("\n", self.begin, self.end)  # for the compiler's messages
        return f"{parameters}) -> ({results}) {lines}" + text[self.end :]

    def outer(self) -> str:
        """Return the function that takes the elements."""
        writer = _Writer()
        given = [writer.take(value) for value in self.parameters]
        types = ", ".join(value.type for value in self.parameters)
        results = ", ".join(value.type for value in self.results)
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
        if not value.is_tuple():
            name = next(self._names)
            self._parameters.append(f"{name}: {value.type}{value.attributes}")
            return name
        parts = [self.take(part) for part in _elements(value)]
        name = next(self._names)
        self.lines.append(f"{name} = stablehlo.tuple {', '.join(parts)} : {value.type}")
        return name

    def give(self, name: str, value: _Value) -> None:
        """Make results of this function of one of the inner function's."""
        if not value.is_tuple():
            self._results.append((name, value.type, value.attributes))
            return
        for at, part in enumerate(_elements(value)):
            made = next(self._names)
            self.lines.append(
                f"{made} = stablehlo.get_tuple_element {name}[{at}] : ({value.type}) -> {part.type}"
            )
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
    inside = value.type[len("tuple<") : -1]
    for at, kind in enumerate(_split(inside)):
        yield _Value(f"{value.name}[{at}]", kind, "")


def _read(text: str, head: re.Match[str]) -> _Signature | None:
    close = _end_of_group(text, head.end() - 1)
    parameters = []
    for part in _split(text[head.end() : close - 1]):
        found = _PARAMETER.match(part)
        if found is None:
            return None
        kind, attributes = _type_and_rest(part[found.end() :])
        parameters.append(_Value(found[1], kind, attributes))
    at = _skip(text, close)
    results = []
    if text.startswith("->", at):
        at = _skip(text, at + 2)
        if text.startswith("(", at):
            end = _end_of_group(text, at)
            listed = _split(text[at + 1 : end - 1])
        else:
            end = at + len(_type_and_rest(text[at:])[0])
            listed = [text[at:end]]
        for number, part in enumerate(listed):
            results.append(_Value(f"result {number}", *_type_and_rest(part.strip())))
        at = end
    return _Signature(parameters, results, head.start(), at)


def _type_and_rest(text: str) -> tuple[str, str]:
    """Return the type that a text begins with, and what is behind it."""
    end = _end_of_group(text, text.index("<")) if "<" in text else len(text)
    return text[:end].strip(), text[end:].rstrip()


def _body_of(text: str, start: int) -> int:
    """Return where a function's body may be looked for: behind its results."""
    at = _skip(text, _end_of_group(text, text.index("(", start)))
    if text.startswith("->", at):
        at = _end_of_group(text, _skip(text, at + 2))
    at = _skip(text, at)
    if text.startswith("attributes", at):
        at = _end_of_group(text, text.index("{", at))
    return at


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _split(text: str) -> list[str]:
    """Return the parts of a list at its commas outside of brackets."""
    parts, depth, begin = [], 0, 0
    for found in _NEXT.finditer(text):
        sign = found.group()
        if sign in _PAIRS:
            depth += 1
        elif sign in _PAIRS.values():
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[begin : found.start()])
            begin = found.end()
    parts.append(text[begin:])
    return [part.strip() for part in parts if part.strip()]


def _end_of_group(text: str, at: int) -> int:
    """Return where the group that begins at a bracket ends; the text's end if it does not."""
    depth = 0
    for found in _NEXT.finditer(text, at):
        sign = found.group()
        if sign in _PAIRS:
            depth += 1
        elif sign in _PAIRS.values():
            depth -= 1
            if depth == 0:
                return found.end()
    return len(text)
