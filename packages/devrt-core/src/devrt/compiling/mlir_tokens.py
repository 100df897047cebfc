"""The tokens of MLIR as text: strings, comments, symbols, brackets.

Everything here takes time linear in what it reads. It only goes forward, and every pattern keeps to
one rule: what can be long and lack its end, such as a string, is taken without it too, and is not
looked at a second time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = [
    "STRING",
    "SYMBOL",
    "end_of_group",
    "end_of_type",
    "name_of",
    "skip_space",
    "split",
    "unquoted",
]

STRING = rb'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?'  # escapes are \" and \\ and two hexadecimal digits
_SIGN = re.compile(STRING + rb"|//[^\n]*|->|[(){}\[\]<>,]")
"""A bracket or a comma; or a string, a comment or an arrow, within which none counts."""
_PAIRS = {b"(": b")", b"{": b"}", b"[": b"]", b"<": b">"}
SYMBOL = re.compile(rb"@(?:([\w.$-]+)|(" + STRING + rb"))")
_CLOSING = frozenset(_PAIRS.values())
_SPACE = re.compile(rb"[\s]*(?://[^\n]*[\s]*)*")
_WORD = re.compile(rb"[!#]?[\w.$]+")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})")


def name_of(symbol: re.Match[bytes]) -> bytes:
    """Return the name of a symbol that `SYMBOL` found."""
    return symbol[1] if symbol[1] is not None else unquoted(symbol[2])


def unquoted(string: bytes) -> bytes:
    """Return what a string says, without its quotes and hexadecimal escapes."""
    inside = string.strip(b'"')
    if b"\\" not in inside:
        return inside
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), inside)


def skip_space(code: bytes, at: int) -> int:
    """Return where something stands again after white space and comments."""
    found = _SPACE.match(code, at)
    return found.end() if found else at


def end_of_group(code: bytes, at: int) -> int:
    """Return where the group that begins at a bracket ends; the text's end if it does not."""
    closing: list[bytes] = []
    for found in _SIGN.finditer(code, at):
        sign = found.group()
        if sign in _PAIRS:
            closing.append(_PAIRS[sign])
        elif closing and sign == closing[-1]:
            closing.pop()
            if not closing:
                return found.end()
    return len(code)


def end_of_type(code: bytes, at: int) -> int:
    """Return where the type that begins at a place ends."""
    word = _WORD.match(code, at)
    at = word.end() if word else at
    return end_of_group(code, at) if code[at : at + 1] in (b"(", b"<") else at


def split(code: bytes) -> Iterator[bytes]:
    """Yield the parts of a list at its commas outside of brackets."""
    depth = begin = 0
    for found in _SIGN.finditer(code):
        sign = found.group()
        if sign in _PAIRS:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == b"," and depth == 0:
            yield code[begin : found.start()]
            begin = found.end()
    yield code[begin:]
