"""What is read of a StableHLO program as text, and why a compiler would not come back from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

__all__ = ["DEEPEST", "Function", "ProgramText"]

DEEPEST = 1000
"""How deep brackets may be nested."""
_Key = tuple[int, bytes]


@dataclasses.dataclass(slots=True)
class Function:
    """A function of a program.

    Attributes
    ----------
    name : bytes
        Its symbol, without quotes; empty until it is read.
    has_body : bool
        Whether it is more than a declaration.
    module : int
        The module that it is in, by number: others may have functions of the same name.
    at : int
        Where it begins.
    parameters : int
        Where the bracket stands that its parameters begin with; -1 in generic form.
    calls : set of bytes
        The functions that it calls, of its module.
    tuples : bool
        Whether a parameter is a tuple.
    """

    name: bytes
    has_body: bool
    module: int
    at: int
    parameters: int = -1
    calls: set[bytes] = dataclasses.field(default_factory=set)
    tuples: bool = False


@dataclasses.dataclass(slots=True)
class ProgramText:
    """What was read of a program.

    Attributes
    ----------
    functions : list of Function
        In order, to the first whose head is cut short.
    operations : set of str
        The names of its operations, of StableHLO and CHLO.
    feed : tuple of str and int, or None
        The first operation that waits for the host, infeed or outfeed, and where it stands.
    counts : dict
        What it gives as ``num_replicas`` and ``num_partitions``.
    meshes : list
        The axes, by name and size, of each Shardy mesh.
    first : dict
        By subject, where the first of the things stands that some compilers lack: ``six_bits`` and
        ``quantised`` (types), ``booleans`` (made or read by a bitcast_convert), ``no_groups`` (an
        all_to_all without any), ``tuples`` (as arguments).
    is_too_deep : bool
        Whether brackets are nested deeper than compilers survive, which go down by recursion. The
        pass ends there.
    """

    functions: list[Function] = dataclasses.field(default_factory=list)
    operations: set[str] = dataclasses.field(default_factory=set)
    feed: tuple[str, int] | None = None
    counts: dict[str, int] = dataclasses.field(default_factory=dict)
    meshes: list[tuple[tuple[str, int], ...]] = dataclasses.field(default_factory=list)
    first: dict[str, int] = dataclasses.field(default_factory=dict)
    is_too_deep: bool = False

    def main(self) -> Function | None:
        """Return the function that runs: the outermost module's, which comes first."""
        return next((each for each in self.functions if each.name == b"main"), None)

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
