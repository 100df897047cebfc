"""What a program's text says of its functions: compilers do not survive some things."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["problem_of"]

_HEAD = re.compile(rb'\bfunc\.func\s+(?:(?:public|private|nested)\s+)?@([\w.$-]+|"[^"]*")\s*\(')
_CALL = re.compile(rb'\bcall\s+@([\w.$-]+|"[^"]*")')
_NEXT = re.compile(rb'"(?:[^"\\]|\\.)*"|//[^\n]*|->|[(){}\[\]<>]')
_SPACE = re.compile(rb"(?:\s|//[^\n]*)*")
_WORD = re.compile(rb"[!#]?[\w.$]+")
_PAIRS = {b"(": b")", b"{": b"}", b"[": b"]", b"<": b">"}


def problem_of(text: bytes) -> str:
    """Return why a compiler would not come back from a program, in a clause; empty if it would.

    Parameters
    ----------
    text
        StableHLO as text.
    """
    calls: dict[bytes, set[bytes]] = {}
    for name, body in _functions(text):
        if body is None:
            return f"function @{name.decode(errors='replace')} has no body"
        calls[name] = set(_CALL.findall(body))
    found = _cycle(calls)
    return f"function @{found.decode(errors='replace')} calls itself" if found else ""


def _functions(text: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    heads = list(_HEAD.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    for head, end in zip(heads, ends, strict=False):
        at = _skip_space(text, _end_of_group(text, head.end() - 1))
        if text.startswith(b"->", at):
            at = _skip_space(text, _end_of_type(text, _skip_space(text, at + 2)))
        if text.startswith(b"attributes", at):
            at = _skip_space(text, _end_of_group(text, _skip_space(text, at + 10)))
        if at >= len(text):
            return  # it is cut short, which every parser finds
        yield head.group(1), text[at:end] if text.startswith(b"{", at) else None


def _skip_space(text: bytes, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _end_of_type(text: bytes, at: int) -> int:
    word = _WORD.match(text, at)
    at = word.end() if word else at
    return _end_of_group(text, at) if text[at : at + 1] in (b"(", b"<") else at


def _end_of_group(text: bytes, at: int) -> int:
    """Return where the group that begins at a bracket ends; the text's end if it does not."""
    closing: list[bytes] = []
    for found in _NEXT.finditer(text, at):
        sign = found.group()
        if sign in _PAIRS:
            closing.append(_PAIRS[sign])
        elif closing and sign == closing[-1]:
            closing.pop()
            if not closing:
                return found.end()
    return len(text)


def _cycle(calls: dict[bytes, set[bytes]]) -> bytes | None:
    done: set[bytes] = set()
    for start in calls:
        path: list[tuple[bytes, Iterator[bytes]]] = [(start, iter(calls[start]))]
        active = {start}
        while path and start not in done:
            name, rest = path[-1]
            called = next((other for other in rest if other in calls and other not in done), None)
            if called is None:
                done.add(name)
                active.discard(name)
                path.pop()
            elif called in active:
                return called
            else:
                active.add(called)
                path.append((called, iter(calls[called])))
    return None
