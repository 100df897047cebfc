"""A StableHLO program as text: what devrt reads of it, in one pass.

Programs come from anywhere, so that the pass takes time linear in their length, whatever is in
them. It reads operations in their own form and in the generic one (``"func.func"() ({...})``), and
takes no word for one in a string, a comment, a location or a resource.
"""

from __future__ import annotations

import dataclasses
import re

from devrt.compiling.function_heads import (
    after_attributes,
    donated,
    end_of_signature,
    has_tuples,
    read_head,
    symbolic,
)
from devrt.compiling.mlir_tokens import (
    STRING,
    SYMBOL,
    name_of,
    skip_space,
    unquoted,
)
from devrt.compiling.program_facts import DEEPEST, STRUCTURE, Function, Mesh, ProgramFacts

__all__ = ["read_text"]

_DIGITS = re.compile(rb"\d{1,18}")  # what has more is no number of devices
_AXIS = re.compile(rb'"([^"\n]+)"\s*=\s*(\d{1,18})')
_MESH = re.compile(rb"<\[([^\]<>]*)\]")
_STRING = re.compile(STRING)
_NO_OPERATION = (b"=", b",", b"}", b")", b"]", b">")  # what follows an attribute's name
_FEEDS = frozenset({b"infeed", b"outfeed"})
_COUNTS = (b"mhlo.num_replicas", b"mhlo.num_partitions")
_KEYS = {
    b"replica_groups": "groups",
    b"sym_name": "own_name",
    b"function_type": "type",
    b"callee": "callee",
    b"decomposition": "callee",
    b"called_computations": "callee",
    b"call_target_name": "target",
    **dict.fromkeys(_COUNTS, "count"),
}

# Of the strings only those that can name an operation or an attribute that matters, with escapes
# or without, are looked at further: names of operations in generic form, and keys.
_NAMES = (
    rb'(?=(?:stablehlo|mhlo|vhlo|chlo|func|builtin|sdy)\.|[^"\\\n]{0,24}\\|'
    rb"(?:callee|decomposition|called_computations|call_target_name|sym_name|function_type"
    rb'|replica_groups)")'
)
# Each alternative begins with a character of its own, which is what a search can be quick by; what
# must not stand before a word is looked at behind that. An empty group says which one was found.
_NOTABLE = re.compile(
    rb'"' + _NAMES + rb'[^"\\\n]*(?:\\[^\n][^"\\\n]*)*"(?=\s*(?:[(=]|//))(?P<string>)'
    rb"|" + STRING + rb"|//[^\n]*|->|\(\)|<[\dx?]*(?:bf|f|u?i)\d+>"
    rb"|\((?P<round>)|\[(?P<square>)|\{(?P<curly>)|<(?P<angle>)"
    rb"|\)(?P<end_round>)|\](?P<end_square>)|\}(?P<end_curly>)|>(?P<end_angle>)"
    rb"|s(?<![\w.$!#@%^-]s)(?:tablehlo\.[a-z_0-9]+(?P<operation>)|dy\.mesh(?P<mesh>)"
    rb"|ym_name(?![\w.$])(?P<own_name>))"
    rb"|m(?<![\w.$!#@%^-]m)(?:hlo\.(?:infeed|outfeed)(?![\w.$])(?P<mhlo>)"
    rb"|hlo\.num_(?:replicas|partitions)(?![\w.$])(?P<count>)|odule(?![\w.$])(?P<module>)"
    rb"|esh(?=<\[)(?P<shardy>))"
    rb"|b(?<![\w.$!#@%^-]b)uiltin\.module(?![\w.$])(?P<builtin>)"
    rb"|f(?<![\w.$!#@%^-]f)unc(?:\.func(?![\w.$])(?P<function>)|tion_type(?![\w.$])(?P<type>))"
    rb"|c(?<![\w$!#@%^-]c)(?:all(?![\w.$])(?P<call>)|hlo\.[a-z_0-9]+(?P<chlo>)"
    rb"|all(?:ee|ed_computations)(?![\w.$])(?P<callee>)|all_target_name(?![\w.$])(?P<target>))"
    rb"|x(?<![\w.$!#@%^-]x)la\.sdy\.(?P<frontend>)"
    rb"|d(?<![\w.$!#@%^-]d)ecomposition(?![\w.$])(?P<decomposition>)"
    rb"|l(?<![\w.$!#@%^-]l)oc(?=\s*(?:\(|//))(?P<location>)"
    rb"|t(?<![\w.$-]t)ensor<[\dx?]*i1>(?P<booleans>)"
    rb"|!quant\.\w+(?=<)(?P<quantised>)"
    rb"|r(?<![\w.$!#@%^-]r)eplica_groups(?![\w.$])(?P<groups>)"
)
_NO_GROUPS = re.compile(rb"dense<[^>]{0,200}>\s*:\s*tensor<0x")


def read_text(code: bytes) -> ProgramFacts:
    """Read a program's text."""
    return _Pass(code).read()


@dataclasses.dataclass(slots=True, frozen=True)
class _Context:
    """What a bracket is in: a module, by its number; a function; a location or a resource."""

    module: int = 0
    function: Function | None = None
    is_aside: bool = False


class _Pass:
    """One pass over a text."""

    def __init__(self, code: bytes) -> None:
        self._code = code
        self._found = ProgramFacts()
        self._functions: list[Function] = []
        self._heads: dict[int, tuple[int, int]] = {}  # parameters and results, by their functions
        self._meshes: list[Mesh] = []
        self._counts: dict[bytes, int] = {}
        self._open: list[tuple[bytes, _Context]] = []  # what closes each bracket, what it is in
        self._context = _Context()
        self._contexts: dict[int, _Context] = {}  # of brackets ahead, by where they stand
        self._modules = 0
        self._generic: dict[int, Function] = {}  # functions in generic form, by their depth
        self._regions: dict[int, _Context] = {}  # of operations in generic form, by their depth
        self._heads_from = 0  # a head within another one's is none
        self._operation = b""  # the last one, without its dialect, and where it stands
        self._operation_at = 0
        self._line, self._brace = _Next(code, b"\n"), _Next(code, b"}")

    def read(self) -> ProgramFacts:
        self._see = {kind: getattr(self, f"_see_{kind}") for kind in _NOTABLE.groupindex}
        for found in _NOTABLE.finditer(self._code):
            if found.lastgroup is not None:
                self._see[found.lastgroup](found.start(), found.end())
                if self._found.is_too_deep:
                    break
        self._finish(self._found)
        return self._found

    def _finish(self, found: ProgramFacts) -> None:
        """Keep what is known only now."""
        found.operations -= STRUCTURE
        found.keep_meshes(self._meshes)
        found.num_replicas, found.num_partitions = map(self._counts.get, _COUNTS)
        found.functions = [each for each in self._functions if each.name]
        main = found.main
        if main is not None and main.at in self._heads:
            main.has_tuples = has_tuples(self._code, *self._heads[main.at])
            main.symbolic = symbolic(self._code, *self._heads[main.at])
            main.donated = donated(self._code, main.at, *self._heads[main.at])

    def _note(self, subject: str, at: int) -> None:
        self._found.first.setdefault(subject, at)

    def _see_round(self, at: int, end: int) -> None:
        if self._regions and len(self._open) in self._regions:
            self._enter_regions(end)
        self._enter(b")", at)

    def _see_square(self, at: int, end: int) -> None:
        self._enter(b"]", at)

    def _see_curly(self, at: int, end: int) -> None:
        if self._code.startswith(b"-#", end):
            self._contexts[at] = _Context(is_aside=True)
        self._enter(b"}", at)

    def _see_angle(self, at: int, end: int) -> None:
        self._enter(b">", at)

    def _enter(self, closing: bytes, at: int) -> None:
        self._open.append((closing, self._context))
        self._found.is_too_deep = len(self._open) > DEEPEST
        if at in self._contexts:
            self._context = self._contexts.pop(at)

    def _leave(self, closing: bytes) -> None:
        while self._open and closing != b">" and self._open[-1][0] == b">":
            self._open.pop()  # "<=" of a constraint
        if self._open and self._open[-1][0] == closing:
            self._context = self._open.pop()[1]

    def _see_end_round(self, at: int, end: int) -> None:
        self._leave(b")")

    def _see_end_square(self, at: int, end: int) -> None:
        self._leave(b"]")

    def _see_end_curly(self, at: int, end: int) -> None:
        self._leave(b"}")

    def _see_end_angle(self, at: int, end: int) -> None:
        self._leave(b">")

    def _enter_regions(self, at: int) -> None:
        begin = skip_space(self._code, at)
        if not self._code.startswith(b"{", begin):
            return
        context = self._contexts[at - 1] = self._regions.pop(len(self._open))
        if context.function is not None:
            inside = skip_space(self._code, begin + 1)
            context.function.has_body = not self._code.startswith(b"}", inside)

    def _see_location(self, at: int, end: int) -> None:
        begin = skip_space(self._code, end)
        if self._code.startswith(b"(", begin):
            self._contexts[begin] = _Context(is_aside=True)

    def _see_string(self, at: int, end: int) -> None:
        name = unquoted(self._code[at : min(end, at + 200)])
        if self._code.startswith(b"(", skip_space(self._code, end)):
            self._see_generic(name, at)
        elif name in _KEYS:
            self._see[_KEYS[name]](at, end)

    def _see_generic(self, name: bytes, at: int) -> None:
        if self._context.is_aside:
            return
        depth, module = len(self._open), self._context.module
        if name == b"func.func":
            function = Function(b"", module=module, at=at)
            self._functions.append(function)
            self._generic[depth] = function
            self._regions[depth] = _Context(module, function)
        elif name == b"builtin.module":
            self._regions[depth] = self._new_module()
        elif name.startswith((b"stablehlo.", b"mhlo.", b"vhlo.", b"chlo.")):
            self._set_operation(name, at)

    def _new_module(self) -> _Context:
        self._modules += 1
        return _Context(self._modules)

    def _see_operation(self, at: int, end: int) -> None:
        if self._context.is_aside:
            return
        after = skip_space(self._code, end)
        name = self._code[at:end]
        is_feed = name.partition(b".")[2] in _FEEDS
        if self._code.startswith(b"%", after) if is_feed else self._is_operation(after):
            self._set_operation(name, at)
            target = SYMBOL.match(self._code, after) if name == b"stablehlo.custom_call" else None
            if target is not None:
                self._add_target(name_of(target))

    def _see_target(self, at: int, end: int) -> None:
        found = _STRING.match(self._code, self._value(end))
        if found is not None and self._operation == b"custom_call":
            self._add_target(unquoted(found.group()))

    def _add_target(self, name: bytes) -> None:
        self._found.custom_calls.add(name.decode(errors="replace"))

    _see_mhlo = _see_chlo = _see_operation

    def _is_operation(self, after: int) -> bool:
        return not self._code.startswith(_NO_OPERATION, after)

    def _set_operation(self, name: bytes, at: int) -> None:
        dialect, _, plain = name.partition(b".")
        plain = plain.rpartition(b"_v")[0] if dialect == b"vhlo" else plain
        self._operation, self._operation_at = plain, at
        if dialect in (b"stablehlo", b"chlo", b"vhlo"):
            name = b"stablehlo." + plain if dialect == b"vhlo" else name
            self._found.operations.add(name.decode(errors="replace"))
        if plain in _FEEDS and self._found.feed is None:
            self._found.feed = f"{dialect.decode()}.{plain.decode()}", at

    def _see_call(self, at: int, end: int) -> None:
        self._add_calls(skip_space(self._code, end))

    def _see_callee(self, at: int, end: int) -> None:
        """See an attribute that names functions: one, or a list of them."""
        value = self._value(end)
        self._add_calls(value + 1 if self._code.startswith(b"[", value) else value)

    _see_decomposition = _see_callee

    def _add_calls(self, at: int) -> None:
        while found := SYMBOL.match(self._code, skip_space(self._code, at)):
            if self._context.function is not None:
                self._context.function.calls.add(name_of(found))
            at = skip_space(self._code, found.end())
            if not self._code.startswith(b",", at):
                return
            at += 1

    def _value(self, end: int) -> int:
        """Return where an attribute's value stands after its name; the text's end if none does."""
        sign = skip_space(self._code, end)
        is_there = self._code.startswith(b"=", sign)
        return skip_space(self._code, sign + 1) if is_there else len(self._code)

    def _owner(self) -> Function | None:
        """Return the function in generic form whose attribute it is that stands here."""
        depth = len(self._open) - 1
        is_property = depth >= 1 and self._open[depth - 1][0] == b">"
        return self._generic.get(depth - 1 if is_property else depth)

    def _see_own_name(self, at: int, end: int) -> None:
        function, found = self._owner(), _STRING.match(self._code, self._value(end))
        if function is not None and found is not None and not function.name:
            function.name = unquoted(found.group())

    def _see_type(self, at: int, end: int) -> None:
        function, begin = self._owner(), self._value(end)
        if function is not None and at >= self._heads_from:
            self._heads_from = end_of_signature(self._code, begin)
            self._heads[function.at] = begin, self._heads_from

    def _see_module(self, at: int, end: int) -> None:
        if at < self._heads_from or self._context.is_aside:
            return
        at = skip_space(self._code, end)
        symbol = SYMBOL.match(self._code, at)
        at = after_attributes(self._code, symbol.end() if symbol else at)
        self._heads_from = at
        if self._code.startswith(b"{", at):
            self._contexts[at] = self._new_module()

    _see_builtin = _see_module

    def _see_function(self, at: int, end: int) -> None:
        if at < self._heads_from or self._context.is_aside:
            return
        head = read_head(self._code, at, end)
        if head is None:
            return
        function, begin, self._heads_from = head
        self._heads[at] = begin, self._heads_from
        if self._heads_from >= len(self._code):  # it is cut short, which every parser finds
            return
        function.module = self._context.module
        self._functions.append(function)
        if function.has_body:
            self._contexts[self._heads_from] = _Context(function.module, function)

    def _see_count(self, at: int, end: int) -> None:
        found = _DIGITS.match(self._code, self._value(end))
        if found is not None and not self._context.is_aside:
            name = unquoted(self._code[at:end])
            self._counts.setdefault(name, max(1, int(found.group())))

    def _see_shardy(self, at: int, end: int) -> None:
        self._found.has_shardy = self._found.has_shardy or not self._context.is_aside

    _see_frontend = _see_shardy

    def _see_mesh(self, at: int, end: int) -> None:
        symbol = SYMBOL.match(self._code, skip_space(self._code, end))
        mesh = _MESH.match(self._code, self._value(symbol.end())) if symbol else None
        if mesh is not None and not self._context.is_aside:
            axes = _AXIS.findall(mesh[1])
            self._meshes.append(
                tuple((name.decode(errors="replace"), int(size)) for name, size in axes)
            )

    def _see_booleans(self, at: int, end: int) -> None:
        if self._operation == b"bitcast_convert" and at < self._line.after(self._operation_at):
            self._note("bitcast_of_booleans", self._operation_at)

    def _see_groups(self, at: int, end: int) -> None:
        is_one = self._operation == b"all_to_all" and at < self._brace.after(self._operation_at)
        if is_one and _NO_GROUPS.match(self._code, self._value(end)):
            self._note("all_to_all_without_groups", self._operation_at)

    def _see_quantised(self, at: int, end: int) -> None:
        self._note("quantised_types", at)


class _Next:
    """Where a character stands next, for places that only grow."""

    def __init__(self, code: bytes, sign: bytes) -> None:
        self._code, self._sign, self._at = code, sign, -1

    def after(self, at: int) -> int:
        if self._at < at:
            found = self._code.find(self._sign, at)
            self._at = found if found >= 0 else len(self._code)
        return self._at
