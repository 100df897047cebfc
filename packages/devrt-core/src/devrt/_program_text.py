"""A StableHLO program as text: what devrt reads of it, in one pass.

Programs come from anywhere, so that the pass takes time linear in their length, whatever is in
them. It only goes forward, and every pattern keeps to one rule: what can be long and lack its end,
such as a string, is taken without it too, and is not looked at a second time.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

__all__ = [
    "SIGN",
    "Function",
    "ProgramText",
    "end_of_group",
    "end_of_type",
    "read_text",
    "skip_space",
    "split",
]

_STRING = rb'"[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"?'  # escapes are \" and \\ and two hexadecimal digits
_SPACE = re.compile(rb"[\s]*(?://[^\n]*[\s]*)*")
SIGN = re.compile(_STRING + rb"|//[^\n]*|->|[(){}\[\]<>,]")
"""A bracket or a comma; or a string, a comment or an arrow, within which none counts."""
_PAIRS = {b"(": b")", b"{": b"}", b"[": b"]", b"<": b">"}
_CLOSING = frozenset(_PAIRS.values())
_SYMBOL = re.compile(rb"@(?:([\w.$-]+)|(" + _STRING + rb"))")
_VISIBILITY = re.compile(rb"(?:public|private|nested)(?![\w.$])")
_WORD = re.compile(rb"[!#]?[\w.$]+")
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2})")
_ASIDE = re.compile(_STRING + rb"|//[^\n]*|->")
_RUN = re.compile(rb"[(\[{<]+|[)\]}>]+")
_NO_BRACKETS = bytes(set(range(256)) - set(b"(){}[]<>"))
_DEEPEST, _ROUNDS = 1000, 20
_TUPLE_ARGUMENT = re.compile(rb":\s*tuple<")

# Each alternative begins with a character of its own, which is what a search can be quick by; what
# must not stand before a word is looked at behind that. An empty group says which one was found.
_NOTABLE = re.compile(
    _STRING + rb"(?:(?=\s*(?:\(|//))(?P<string>))?"
    rb"|//[^\n]*"
    rb"|s(?<![\w.$!#@%^-]s)tablehlo\.[a-z_0-9]+(?P<operation>)"
    rb"|m(?<![\w.$!#@%^-]m)hlo\.(?:infeed|outfeed)(?![\w.$])(?P<mhlo>)"
    rb"|f(?<![\w.$-]f)unc\.func(?![\w.$])(?P<function>)"
    rb"|c(?<![\w$-]c)all(?![\w.$])(?P<call>)"
    rb"|t(?<![\w.$-]t)ensor<[\dx?]*i1>(?P<booleans>)"
    rb"|f6E[23]M[23]FN\b(?P<six_bits>)"
    rb"|!quant\.\w+<(?P<quantised>)"
    rb"|replica_groups\s*=\s*dense<[^>]{0,200}>\s*:\s*tensor<0x(?P<no_groups>)"
)
_FEEDS = frozenset({b"infeed", b"outfeed"})


@dataclasses.dataclass(slots=True)
class Function:
    """A function of a program.

    Attributes
    ----------
    name : bytes
        Its symbol, without quotes.
    has_body : bool
        Whether it is more than a declaration.
    calls : set of bytes
        The functions that it calls.
    """

    name: bytes
    has_body: bool
    calls: set[bytes] = dataclasses.field(default_factory=set)


@dataclasses.dataclass(slots=True)
class ProgramText:
    """What was read of a program.

    Attributes
    ----------
    functions : list of Function
        In order, to the first whose head is cut short.
    feed : tuple of str and int, or None
        The first operation that waits for the host, infeed or outfeed, and where it stands.
    first : dict
        By subject, where the first of the things stands that some compilers lack: ``six_bits`` and
        ``quantised`` (types), ``booleans`` (made or read by a bitcast_convert), ``no_groups`` (an
        all_to_all without any), ``tuples`` (as arguments).
    is_too_deep : bool
        Whether brackets are nested deeper than compilers survive, which go down by recursion.
    """

    functions: list[Function] = dataclasses.field(default_factory=list)
    feed: tuple[str, int] | None = None
    first: dict[str, int] = dataclasses.field(default_factory=dict)

    is_too_deep: bool = False

    def problem(self) -> str:
        """Return why a compiler would not come back from it, in a clause; empty if it would."""
        if self.is_too_deep:
            return f"its brackets are nested deeper than {_DEEPEST}"
        calls: dict[bytes, set[bytes]] = {}
        for function in self.functions:
            if not function.has_body:
                return f"function @{function.name.decode(errors='replace')} has no body"
            calls[function.name] = function.calls
        found = _cycle(calls)
        return f"function @{found.decode(errors='replace')} calls itself" if found else ""


def read_text(code: bytes) -> ProgramText:
    """Read a program's text."""
    found = _Pass(code).read()
    found.is_too_deep = _is_deeper(code, _DEEPEST)
    return found


def _is_deeper(code: bytes, limit: int) -> bool:
    if sum(code.count(sign) for sign in _PAIRS) <= limit:
        return False
    brackets = _ASIDE.sub(b"", code).translate(None, _NO_BRACKETS)
    for _ in range(_ROUNDS):  # takes the innermost away, which most are, at little cost
        for sign, end in _PAIRS.items():
            brackets = brackets.replace(sign + end, b"")
    depth = 0
    for run in _RUN.finditer(brackets):
        signs = run.group()
        depth = max(0, depth + (len(signs) if signs[:1] in _PAIRS else -len(signs)))
        if depth > limit - _ROUNDS:
            return True
    return False


class _Pass:
    """One pass over a text."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._found = ProgramText()
        self._heads_from = 0  # a head within another one's is none
        self._operation = b""  # the last one, without its dialect, and where it stands
        self._operation_at = 0
        self._line, self._brace = _Next(code, b"\n"), _Next(code, b"}")

    def read(self) -> ProgramText:
        see = {kind: getattr(self, f"_see_{kind}") for kind in _NOTABLE.groupindex}
        for found in _NOTABLE.finditer(self._code):
            if found.lastgroup is not None:
                see[found.lastgroup](found.start(), found.end())
        return self._found

    def _note(self, subject: str, at: int) -> None:
        self._found.first.setdefault(subject, at)

    def _see_operation(self, at: int, end: int) -> None:
        self._set_operation(self._code[at:end], at)

    _see_mhlo = _see_operation

    def _see_string(self, at: int, end: int) -> None:
        after = skip_space(self._code, end)
        if self._code.startswith(b"(", after) and not self._code.endswith(b"loc(", 0, at):
            name = _unquoted(self._code[at : min(end, at + 200)])
            if name.startswith((b"stablehlo.", b"mhlo.", b"vhlo.")):
                self._set_operation(name, at)

    def _set_operation(self, name: bytes, at: int) -> None:
        dialect, _, plain = name.partition(b".")
        plain = plain.rpartition(b"_v")[0] if dialect == b"vhlo" else plain
        self._operation, self._operation_at = plain, at
        if plain in _FEEDS and self._found.feed is None:
            self._found.feed = f"{dialect.decode()}.{plain.decode()}", at

    def _see_call(self, at: int, end: int) -> None:
        found = _SYMBOL.match(self._code, skip_space(self._code, end))
        if found is not None and self._found.functions:
            self._found.functions[-1].calls.add(_name_of(found))

    def _see_function(self, at: int, end: int) -> None:
        if at < self._heads_from:
            return
        head = _read_head(self._code, end)
        if head is None:
            return
        function, begin, self._heads_from = head
        if self._heads_from >= len(self._code):  # it is cut short, which every parser finds
            return
        self._found.functions.append(function)
        if function.name == b"main":
            tuples = _TUPLE_ARGUMENT.search(self._code, begin, end_of_group(self._code, begin))
            if tuples is not None:
                self._note("tuples", begin)

    def _see_booleans(self, at: int, end: int) -> None:
        if self._operation == b"bitcast_convert" and at < self._line.after(self._operation_at):
            self._note("booleans", self._operation_at)

    def _see_no_groups(self, at: int, end: int) -> None:
        if self._operation == b"all_to_all" and at < self._brace.after(self._operation_at):
            self._note("no_groups", self._operation_at)

    def _see_six_bits(self, at: int, end: int) -> None:
        self._note("six_bits", at)

    def _see_quantised(self, at: int, end: int) -> None:
        self._note("quantised", at)


class _Next:
    """Where a character stands next, for places that only grow."""

    def __init__(self, code: bytes, sign: bytes) -> None:
        self._code, self._sign, self._at = code, sign, -1

    def after(self, at: int) -> int:
        if self._at < at:
            found = self._code.find(self._sign, at)
            self._at = found if found >= 0 else len(self._code)
        return self._at


def _read_head(code: bytes, at: int) -> tuple[Function, int, int] | None:
    """Return a function, where its parameters begin and where its head ends; None if it is none."""
    at = skip_space(code, at)
    visibility = _VISIBILITY.match(code, at)
    symbol = _SYMBOL.match(code, skip_space(code, visibility.end()) if visibility else at)
    if symbol is None:
        return None
    begin = skip_space(code, symbol.end())
    if not code.startswith(b"(", begin):
        return None
    at = skip_space(code, end_of_group(code, begin))
    if code.startswith(b"->", at):
        at = skip_space(code, end_of_type(code, skip_space(code, at + 2)))
    if code.startswith(b"attributes", at):
        at = skip_space(code, end_of_group(code, skip_space(code, at + 10)))
    return Function(_name_of(symbol), code.startswith(b"{", at)), begin, at


def _name_of(symbol: re.Match[bytes]) -> bytes:
    return symbol[1] if symbol[1] is not None else _unquoted(symbol[2])


def _unquoted(string: bytes) -> bytes:
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
    for found in SIGN.finditer(code, at):
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
    for found in SIGN.finditer(code):
        sign = found.group()
        if sign in _PAIRS:
            depth += 1
        elif sign in _CLOSING:
            depth -= 1
        elif sign == b"," and depth == 0:
            yield code[begin : found.start()]
            begin = found.end()
    yield code[begin:]


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
