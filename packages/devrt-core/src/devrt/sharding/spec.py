"""Partition specs: which mesh axes divide which dimension of an array."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, TypeAlias, overload

from devrt.errors import InvalidTypeError

__all__ = ["P", "PartitionSpec"]


class _Unconstrained(enum.Enum):
    """The one value that leaves a dimension to the compiler; an enum so that pickling keeps it."""

    UNCONSTRAINED = "UNCONSTRAINED"

    def __repr__(self) -> str:
        return "UNCONSTRAINED"


SpecEntry: TypeAlias = str | tuple[str, ...] | Literal[_Unconstrained.UNCONSTRAINED] | None


class PartitionSpec:
    """Names, for each dimension of an array, the mesh axes that divide it.

    Parameters
    ----------
    *partitions
        One entry per dimension: None (not divided), a mesh axis, a tuple of mesh axes (divided
        by all of them, the first one outermost), or `UNCONSTRAINED` (left to the compiler).
        Dimensions past the last entry are not divided.

    Attributes
    ----------
    UNCONSTRAINED
        The entry that leaves a dimension to the compiler.

    Raises
    ------
    InvalidTypeError
        If an entry is none of these.

    Notes
    -----
    Specs are immutable. Two are equal when their entries are, where a tuple of one axis is that
    axis and an empty tuple is None; ``P('x')`` and ``P('x', None)`` are different. A spec is
    never equal to a plain tuple.
    """

    __slots__ = ("_hash", "_partitions")

    UNCONSTRAINED: ClassVar[Literal[_Unconstrained.UNCONSTRAINED]] = _Unconstrained.UNCONSTRAINED

    _partitions: tuple[SpecEntry, ...]
    _hash: int

    def __init__(self, *partitions: Any) -> None:
        for entry in partitions:
            if entry is not None and entry.__class__ is not str:
                partitions = tuple(map(_canonical_entry, partitions))
                break
        self._partitions = partitions
        self._hash = hash(partitions)

    @property
    def partitions(self) -> tuple[SpecEntry, ...]:
        """The entries as a plain tuple."""
        return self._partitions

    def __len__(self) -> int:
        return len(self._partitions)

    def __iter__(self) -> Iterator[SpecEntry]:
        return iter(self._partitions)

    @overload
    def __getitem__(self, index: int) -> SpecEntry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SpecEntry, ...]: ...
    def __getitem__(self, index: int | slice) -> SpecEntry | tuple[SpecEntry, ...]:
        return self._partitions[index]

    def __contains__(self, entry: object) -> bool:
        return entry in self._partitions

    def index(self, entry: SpecEntry) -> int:
        """Return the first dimension whose entry is ``entry``; ValueError if there is none."""
        return self._partitions.index(entry)

    def count(self, entry: SpecEntry) -> int:
        """Return how many dimensions have the entry ``entry``."""
        return self._partitions.count(entry)

    def __add__(self, other: object) -> PartitionSpec:
        if isinstance(other, PartitionSpec | tuple):
            return PartitionSpec(*self._partitions, *other)
        return NotImplemented

    def __radd__(self, other: object) -> PartitionSpec:
        if isinstance(other, tuple):
            return PartitionSpec(*other, *self._partitions)
        return NotImplemented

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, PartitionSpec):
            return self._partitions == other._partitions
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return PartitionSpec, self._partitions

    def __copy__(self) -> PartitionSpec:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PartitionSpec:
        return self

    def __repr__(self) -> str:
        return f"PartitionSpec{self._partitions!r}"


P = PartitionSpec


def _canonical_entry(entry: Any) -> SpecEntry:
    if entry is None or isinstance(entry, str | _Unconstrained):
        return entry
    if isinstance(entry, Iterable):
        axes = tuple(entry)
        if all(isinstance(axis, str) for axis in axes):
            return axes if len(axes) > 1 else (axes[0] if axes else None)
    msg = (
        f"An entry of a PartitionSpec is None, the name of a mesh axis, a tuple of such names, or "
        f"PartitionSpec.UNCONSTRAINED, but one is {entry!r} of type {type(entry).__name__}."
    )
    raise InvalidTypeError(msg, entry=entry)
