"""The heads of functions in MLIR as text: their names, parameters and results."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from devrt.compiling.mlir_tokens import (
    STRING,
    SYMBOL,
    end_of_group,
    end_of_type,
    name_of,
    skip_space,
    split,
)
from devrt.compiling.program_facts import DONATES, Function

__all__ = ["after_attributes", "donated", "end_of_signature", "has_tuples", "read_head", "symbolic"]

_VISIBILITY = re.compile(rb"(?:public|private|nested)(?![\w.$])")
_TUPLE = re.compile(STRING + rb"|//[^\n]*|\b(tuple<)|(![\w$-]+)(?![\w.$-])")
_ALIAS = re.compile(rb"(![\w$-]+)\s*=\s*(?:(tuple<)|(![\w$-]+))")
_OPENING = re.compile(rb"\(|\[|(<?\s*\{)")
_ARGUMENTS = re.compile(rb'\s*(?://[^\n]*\s*)*"?arg_attrs"?\s*=\s*')
_PARAMETER = re.compile(rb"%[\w$.-]+\s*:\s*(?:tensor<((?:[\d?]+x)*))?")
_ALIAS_NAME = re.compile(rb"#[\w$.-]+")
_ALIAS_OF = re.compile(rb"^[ \t]*(#[\w$.-]+)[ \t]*=[ \t]*", re.M)
_DONATED = re.compile(
    STRING + rb"|//[^\n]*|\b(" + b"|".join(map(re.escape, sorted(DONATES))) + rb")\b"
)


def read_head(code: bytes, at: int, end: int) -> tuple[Function, int, int] | None:
    """Return a function, where its parameters begin and where its head ends; None if it is none.

    ``at`` and ``end`` are where the word for a function stands, and where it ends.
    """
    end = skip_space(code, end)
    visibility = _VISIBILITY.match(code, end)
    symbol = SYMBOL.match(code, skip_space(code, visibility.end()) if visibility else end)
    if symbol is None:
        return None
    begin = skip_space(code, symbol.end())
    if not code.startswith(b"(", begin):
        return None
    after = after_attributes(code, end_of_signature(code, begin))
    return Function(name_of(symbol), code.startswith(b"{", after), at=at), begin, after


def end_of_signature(code: bytes, begin: int) -> int:
    """Return where parameters and results end."""
    end = end_of_type(code, begin)
    after = skip_space(code, end)
    return end_of_type(code, skip_space(code, after + 2)) if code.startswith(b"->", after) else end


def after_attributes(code: bytes, at: int) -> int:
    """Return where something stands again after the attributes that a head may have."""
    at = skip_space(code, at)
    if code.startswith(b"attributes", at):
        at = skip_space(code, end_of_group(code, skip_space(code, at + 10)))
    return at


def has_tuples(code: bytes, begin: int, end: int) -> bool:
    """Return whether a function's parameters and results name a tuple, if by another name."""
    found = list(_TUPLE.finditer(code, begin, end))
    names = {each[2] for each in found if each[2]}
    return any(each[1] for each in found) or (bool(names) and not names.isdisjoint(_tuples(code)))


def symbolic(code: bytes, begin: int, end: int) -> tuple[int, str] | None:
    """Return the first parameter with a symbolic dimension, by number, and its shape."""
    for number, found in enumerate(_PARAMETER.finditer(code, begin, end)):
        if found[1] and b"?" in found[1]:
            return number, ", ".join(found[1].decode().rstrip("x").split("x"))
    return None


def _tuples(code: bytes) -> set[bytes]:
    """Return the names that stand for tuples."""
    names: set[bytes] = set()
    for name, is_tuple, other in _ALIAS.findall(code):
        if is_tuple or other in names:
            names.add(name)
    return names


def donated(code: bytes, at: int, begin: int, end: int) -> tuple[int, ...]:
    """Return the numbers of the parameters whose attributes let their memory be taken over.

    The function begins at ``at``, its parameters at ``begin``; its head, or in generic form its
    type, ends at ``end``.
    """
    if code.startswith(b'"', at):
        parts = _argument_attributes(code, at)
    else:
        parts = split(code[begin + 1 : min(end, end_of_group(code, begin)) - 1])
    found = enumerate(any(each[1] for each in _DONATED.finditer(part)) for part in parts)
    return tuple(i for i, is_donated in found if is_donated)


def _argument_attributes(code: bytes, at: int) -> Iterator[bytes]:
    """Yield the attributes of each parameter of a function in generic form."""
    at = skip_space(code, code.index(b'"', at + 1) + 1)
    while opening := _OPENING.match(code, at):  # operands, properties, regions, attributes
        end = end_of_group(code, at)
        if opening[1]:
            for item in split(code[opening.end() : end].rstrip(b">").rstrip()[:-1]):
                if found := _ARGUMENTS.match(item):
                    aliases = _Aliases(code)
                    listed = aliases.resolve(item[found.end() :].strip())
                    yield from (aliases.resolve(each.strip()) for each in _items(listed))
                    return
        at = skip_space(code, end)


def _items(listed: bytes) -> Iterator[bytes]:
    """Yield the items of a list in brackets; nothing of what is none."""
    if listed.startswith(b"["):
        yield from split(listed[1 : end_of_group(listed, 0) - 1])


class _Aliases:
    """What the names of attributes in a text stand for; each is looked up once."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._known: dict[bytes, bytes] = {}

    @functools.cached_property
    def _values(self) -> dict[bytes, int]:
        return {found[1]: found.end() for found in _ALIAS_OF.finditer(self._code)}

    def resolve(self, value: bytes) -> bytes:
        """Return an attribute's text: that which it stands for where it is a name."""
        if not value.startswith(b"#"):
            return value
        if value not in self._known:
            self._known[value] = b""  # of a name that stands for itself nothing is known
            self._known[value] = self._read(self._values.get(value, len(self._code)))
        return self._known[value]

    def _read(self, at: int) -> bytes:
        if self._code.startswith((b"[", b"{"), at):
            return self._code[at : end_of_group(self._code, at)]
        other = _ALIAS_NAME.match(self._code, at)
        return self.resolve(other.group()) if other is not None else b""
