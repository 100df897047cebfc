"""Quirks: defects of versions of somebody's compiler, and what devrt does about each.

Those of XLA's compilers for the CPU are in `devrt.compiling.xla_cpu_quirks`; a backend may list
others in a module of its own. Outside of the versions in which a defect was seen nothing is refused
and no flag is set: ``nox -s quirks`` runs the case of each against a library, and says which
defects are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from devrt._support.record import record
from devrt.compiling.program import Program
from devrt.errors import UnimplementedError

__all__ = ["Flag", "LibraryVersion", "Quirk", "flags_of", "matching", "refuse"]

Version = tuple[int, ...]
Flag = bool | int


class LibraryVersion(NamedTuple):
    """A library by its distribution, and its version as numbers."""

    name: str
    version: Version


@record(frozen=True, slots=True)
class Quirk:
    """A defect of some versions of a library, and one of three things that are done about it.

    Attributes
    ----------
    library : str
        The distribution that brings the library.
    first, last : tuple of int
        The first and the last version in which the defect was seen.
    effect : str
        What happens where nothing is done, as the end of a sentence about the library.
    case : str
        What shows it: the name of a test of your own (for devrt's backends, of a function of
        ``tests/quirks/cases.py``). devrt does not read it.
    subject : str
        Programs that have it are refused: a subject of `ProgramFacts.first`.
    flags : mapping
        Flags of the compiler that programs are compiled with, unless the caller gives others.
    operations : frozenset of str
        The flags are for programs that have one of these operations; empty for all programs.
    is_avoided : bool
        Whether the library is not taken by itself where another one is installed.
    """

    library: str
    first: Version
    last: Version
    effect: str
    case: str
    subject: str = ""
    flags: Mapping[str, Flag] = MappingProxyType({})
    operations: frozenset[str] = frozenset()
    is_avoided: bool = False

    def __str__(self) -> str:
        first, last = (".".join(map(str, version)) for version in (self.first, self.last))
        versions = first if first == last else f"{first} to {last}"
        return f"{self.library} {versions} {self.effect}"

    def is_in(self, library: LibraryVersion) -> bool:
        """Return whether a library has the defect, as far as is known."""
        return library.name == self.library and self.first <= library.version <= self.last

    def concerns(self, program: Program) -> bool:
        """Return whether a program has the operations that the flags are for, or may have them.

        Of an executable that is loaded the program is not known: an empty one stands for it.
        """
        if not self.operations or not program:
            return True
        facts = program.facts
        return not facts.is_whole or not self.operations.isdisjoint(facts.operations)


def matching(quirks: Iterable[Quirk], library: LibraryVersion | None) -> tuple[Quirk, ...]:
    """Return the quirks of a library; none where it is not known which it is."""
    return () if library is None else tuple(quirk for quirk in quirks if quirk.is_in(library))


def refuse(quirks: Iterable[Quirk], program: Program, operation: str) -> None:
    """Refuse a program that a compiler with some quirks does not come back from.

    Raises
    ------
    UnimplementedError
        If it has the subject of one; the message has a text's line.
    """
    first = program.facts.first
    for quirk in quirks:
        if quirk.subject in first:
            msg = (
                f"{program.location_of(first[quirk.subject])}: {quirk}. Write the program in "
                "another way, use another version of the library, or compile for another platform."
            )
            raise UnimplementedError(msg, operation=operation, library=quirk.library)


def flags_of(quirks: Iterable[Quirk], program: Program) -> dict[str, Flag]:
    """Return the compiler's flags that avoid some quirks in a program."""
    return {
        name: value
        for quirk in quirks
        if quirk.flags and quirk.concerns(program)
        for name, value in quirk.flags.items()
    }
