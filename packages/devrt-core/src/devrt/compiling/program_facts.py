"""What is read of a StableHLO program, and why a compiler would not come back from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

__all__ = ["DEEPEST", "DONATES", "STRUCTURE", "Function", "Mesh", "ProgramFacts"]

DEEPEST = 1000
"""How deep brackets may be nested."""
DONATES = frozenset({b"tf.aliasing_output", b"jax.buffer_donor"})
"""The attributes of a parameter whose memory the program may take over."""
Mesh = tuple[tuple[str, int], ...]
STRUCTURE = frozenset(f"stablehlo.{name}" for name in ("call", "func", "return"))
"""Operations that give a program its structure, and tell nothing of what it does."""
_Key = tuple[int, bytes]


@dataclasses.dataclass(slots=True)
class Function:
    """A function of a program: its symbol, without quotes, empty until it is read.

    It has a body unless it is a declaration. ``module`` is the one that it is in, by number: others
    may have functions of the same name, and ``calls`` are those of its own. ``at`` is where it
    begins in text. ``donated`` are the parameters, by number, whose memory the program may take
    over; ``symbolic`` is the first one with a symbolic dimension, and its shape.
    """

    name: bytes
    has_body: bool = False
    module: int = 0
    at: int = 0
    calls: set[bytes] = dataclasses.field(default_factory=set)
    has_tuples: bool = False
    donated: tuple[int, ...] = ()
    symbolic: tuple[int, str] | None = None


@dataclasses.dataclass(slots=True)
class ProgramFacts:
    """What was read of a program.

    ``functions`` are in order; of text, to the first whose head is cut short. ``operations`` are
    names, of StableHLO and CHLO, without versions, and without calls, functions and what else gives
    a program its structure; ``custom_calls`` are targets. ``feed`` is the first operation that
    waits for the host, infeed or outfeed, and where it stands. ``num_replicas`` and
    ``num_partitions`` are None where the program does not say. ``meshes`` are the axes, by name and
    size, of the Shardy meshes with more than one device, each once.

    ``has_shardy`` tells whether its shardings are Shardy's: it has a mesh of Shardy's, or Shardy's
    frontend attributes. A compiler for those ignores GSPMD's. ``first`` tells by subject where the
    first of the things stands that a compiler is known not to survive (`devrt.compiling.quirks`):
    ``bitcast_of_booleans`` (made or read by a bitcast_convert), ``quantised_types``,
    ``all_to_all_without_groups``; in bytecode 0 stands for anywhere. ``is_whole`` tells whether all
    of it was read; of bytecode in a later version than devrt knows, some is not. ``is_too_deep``
    tells that brackets are nested deeper than compilers survive, which go down by recursion; the
    reading ends there.
    """

    functions: list[Function] = dataclasses.field(default_factory=list)
    operations: set[str] = dataclasses.field(default_factory=set)
    custom_calls: set[str] = dataclasses.field(default_factory=set)
    feed: tuple[str, int] | None = None
    num_replicas: int | None = None
    num_partitions: int | None = None
    meshes: tuple[Mesh, ...] = ()
    has_shardy: bool = False
    first: dict[str, int] = dataclasses.field(default_factory=dict)
    is_whole: bool = True
    is_too_deep: bool = False

    @property
    def main(self) -> Function | None:
        """The function that runs: the outermost module's."""
        found = (each for each in self.functions if each.name == b"main")
        return min(found, key=lambda each: each.module, default=None)

    def keep_meshes(self, meshes: list[Mesh]) -> None:
        """Keep what Shardy's meshes tell."""
        self.has_shardy = self.has_shardy or bool(meshes)
        self.meshes = tuple(dict.fromkeys(m for m in meshes if any(size > 1 for _, size in m)))

    def problem(self) -> str:
        """Return why a compiler would not come back from it, in a clause; empty if it would."""
        if self.is_too_deep:
            return f"its brackets are nested deeper than {DEEPEST}"
        calls: dict[_Key, set[_Key]] = {}
        for each in self.functions:
            if not each.has_body:
                return f"function @{each.name.decode(errors='replace')} has no body"
            calls[each.module, each.name] = {(each.module, name) for name in each.calls}
        found = _cycle(calls)
        return f"function @{found[1].decode(errors='replace')} calls itself" if found else ""


def _cycle(calls: dict[_Key, set[_Key]]) -> _Key | None:
    """Return a function that calls itself, if through others; None if none does."""
    done: set[_Key] = set()
    for start in calls:
        path: list[tuple[_Key, Iterator[_Key]]] = [(start, iter(calls[start]))]
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
