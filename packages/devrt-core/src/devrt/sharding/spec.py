"""Partition specs: which mesh axes divide which dimension of an array."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Literal, TypeAlias, overload

from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["P", "PartitionSpec", "UnreducedKind", "axes_of"]


class _Unconstrained(enum.Enum):
    """The one value that leaves a dimension to the compiler; an enum so that pickling keeps it."""

    UNCONSTRAINED = "UNCONSTRAINED"

    def __repr__(self) -> str:
        return "UNCONSTRAINED"


class UnreducedKind(enum.Enum):
    """What makes an array of the values that devices hold along unreduced axes."""

    sum = enum.auto()
    max = enum.auto()
    min = enum.auto()


_NO_AXES: frozenset[str] = frozenset()

SpecEntry: TypeAlias = str | tuple[str, ...] | Literal[_Unconstrained.UNCONSTRAINED] | None


class PartitionSpec:
    """Names, for each dimension of an array, the mesh axes that divide it.

    Parameters
    ----------
    *partitions
        One entry per dimension: None (not divided), a mesh axis, a tuple of mesh axes (divided
        by all of them, the first one outermost), or `UNCONSTRAINED` (left to the compiler).
        Dimensions past the last entry are not divided.
    unreduced
        Mesh axes along which each device holds a summand: the array is their sum. Only programs
        make such arrays.
    reduced
        Mesh axes along which the summands of the array's cotangent are; they place nothing.
    unreduced_kind
        The `UnreducedKind` along ``unreduced``: the sum, unless another is given.

    Attributes
    ----------
    UNCONSTRAINED
        The entry that leaves a dimension to the compiler.

    Raises
    ------
    InvalidTypeError
        If an entry is none of these, ``unreduced`` or ``reduced`` no set of names, or
        ``unreduced_kind`` no kind.
    InvalidArgumentError
        If an axis is in two of the three, or there is a kind without ``unreduced``.

    Notes
    -----
    Specs are immutable. Two are equal when their entries are, where a tuple of one axis is that
    axis and an empty tuple is None; ``P('x')`` and ``P('x', None)`` are different. A spec is
    never equal to a plain tuple.
    """

    __slots__ = ("_hash", "_partitions", "_reduced", "_unreduced", "_unreduced_kind")

    UNCONSTRAINED: ClassVar[Literal[_Unconstrained.UNCONSTRAINED]] = _Unconstrained.UNCONSTRAINED

    _partitions: tuple[SpecEntry, ...]
    _unreduced: frozenset[str]
    _reduced: frozenset[str]
    _unreduced_kind: UnreducedKind | None
    _hash: int

    def __init__(
        self,
        *partitions: Any,
        unreduced: Any = _NO_AXES,
        reduced: Any = _NO_AXES,
        unreduced_kind: UnreducedKind | None = None,
    ) -> None:
        for entry in partitions:
            if entry is not None and entry.__class__ is not str:
                partitions = tuple(map(_canonical_entry, partitions))
                break
        self._partitions = partitions
        self._unreduced, self._reduced, self._unreduced_kind = unreduced, reduced, unreduced_kind
        if unreduced is _NO_AXES is reduced and unreduced_kind is None:  # the common case, first
            self._hash = hash(partitions)
            return
        self._unreduced = _axes("unreduced", unreduced)
        self._reduced = _axes("reduced", reduced)
        _check_apart(self)
        self._unreduced_kind = _kind(self._unreduced, unreduced_kind)
        self._hash = hash(self._parts() if self._unreduced or self._reduced else partitions)

    @property
    def partitions(self) -> tuple[SpecEntry, ...]:
        """The entries as a plain tuple."""
        return self._partitions

    @property
    def unreduced(self) -> frozenset[str]:
        """The mesh axes along which each device holds a summand."""
        return self._unreduced

    @property
    def reduced(self) -> frozenset[str]:
        """The mesh axes along which the cotangent is unreduced."""
        return self._reduced

    @property
    def unreduced_kind(self) -> UnreducedKind | None:
        """What makes the array along the unreduced axes; None where there are none."""
        return self._unreduced_kind

    def _parts(self) -> tuple[Any, ...]:
        return self._partitions, self._unreduced, self._reduced, self._unreduced_kind

    def update(
        self,
        partitions: Iterable[Any] | None = None,
        unreduced: Any = None,
        reduced: Any = None,
        unreduced_kind: UnreducedKind | None = None,
    ) -> PartitionSpec:
        """Return the spec with other entries, sets of axes or kind; None keeps what it has."""
        unreduced = self._unreduced if unreduced is None else unreduced
        kind = self._unreduced_kind if unreduced_kind is None and unreduced else unreduced_kind
        return PartitionSpec(
            *(self._partitions if partitions is None else partitions),
            unreduced=unreduced,
            reduced=self._reduced if reduced is None else reduced,
            unreduced_kind=kind,
        )

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
        if isinstance(other, PartitionSpec):
            kinds = {self._unreduced_kind, other._unreduced_kind} - {None}
            if len(kinds) > 1:
                msg = f"{self} and {other} cannot be joined: they differ in unreduced_kind."
                raise InvalidTypeError(msg, spec=self)
            return PartitionSpec(
                *self._partitions,
                *other._partitions,
                unreduced=self._unreduced | other._unreduced,
                reduced=self._reduced | other._reduced,
                unreduced_kind=next(iter(kinds), None),
            )
        if isinstance(other, tuple):
            self._refuse_tuple(other, "__add__")
            return PartitionSpec(*self._partitions, *other)
        return NotImplemented

    def __radd__(self, other: object) -> PartitionSpec:
        if isinstance(other, tuple):
            self._refuse_tuple(other, "__radd__")
            return PartitionSpec(*other, *self._partitions)
        return NotImplemented

    def _refuse_tuple(self, other: tuple[Any, ...], method: str) -> None:
        for name in ("unreduced", "reduced"):
            if getattr(self, name):
                msg = (
                    f"{self} has {name} in `{method}` of PartitionSpec, which the tuple {other} "
                    "cannot have. Add a PartitionSpec."
                )
                raise InvalidTypeError(msg, spec=self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, PartitionSpec):
            return (
                self._partitions == other._partitions
                and self._unreduced == other._unreduced
                and self._reduced == other._reduced
                and self._unreduced_kind is other._unreduced_kind
            )
        return NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        if self._unreduced or self._reduced:
            return _rebuild, self._parts()
        return PartitionSpec, self._partitions

    def __copy__(self) -> PartitionSpec:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> PartitionSpec:
        return self

    def __repr__(self) -> str:
        if not (self._unreduced or self._reduced):
            return f"PartitionSpec{self._partitions!r}"
        parts = list(map(repr, self._partitions))
        for name in ("unreduced", "reduced"):
            if axes := sorted(getattr(self, name)):
                parts.append(f"{name}={{{', '.join(map(repr, axes))}}}")
        if self._unreduced_kind not in (None, UnreducedKind.sum):
            parts.append(f"unreduced_kind={self._unreduced_kind.name}")
        return f"PartitionSpec({', '.join(parts)})"


P = PartitionSpec


def axes_of(entry: object) -> tuple[str, ...]:
    """Return the mesh axes that an entry of a spec names."""
    if isinstance(entry, str):
        return (entry,)
    return entry if isinstance(entry, tuple) else ()


def _rebuild(
    partitions: tuple[Any, ...],
    unreduced: frozenset[str],
    reduced: frozenset[str],
    kind: UnreducedKind | None = None,
) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced, unreduced_kind=kind)


def _kind(unreduced: frozenset[str], given: Any) -> UnreducedKind | None:
    if given is not None and not isinstance(given, UnreducedKind):
        msg = f"unreduced_kind is an UnreducedKind or None, not {given!r}."
        raise InvalidTypeError(msg, unreduced_kind=given)
    if given is not None and not unreduced:
        msg = f"unreduced_kind {given.name} needs unreduced axes, and there are none."
        raise InvalidArgumentError(msg, unreduced_kind=given)
    return (given or UnreducedKind.sum) if unreduced else None


def _axes(name: str, given: Any) -> frozenset[str]:
    if not isinstance(given, set | frozenset):
        msg = (
            f"{name} argument of PartitionSpec is a set of names of mesh axes, not {given!r} of "
            f"type {type(given).__name__}."
        )
        raise InvalidTypeError(msg, axes=given)
    for axis in given:
        if not isinstance(axis, str):
            msg = f"{name} cannot contain {axis!r}: its elements are names of mesh axes."
            raise InvalidArgumentError(msg, axes=given)
    return frozenset(given)


def _check_apart(spec: PartitionSpec) -> None:
    used = {axis for entry in spec.partitions for axis in axes_of(entry)}
    for name in ("unreduced", "reduced"):
        if both := used & getattr(spec, name):
            msg = (
                f"partitions cannot overlap with {name} axes: {sorted(both)} are in both of "
                f"{spec}. Name each axis once."
            )
            raise InvalidArgumentError(msg, spec=spec)
    if both := spec.unreduced & spec.reduced:
        msg = (
            f"`unreduced` and `reduced` of a PartitionSpec cannot overlap: {sorted(both)} are in "
            f"both of {spec}. Name each axis once."
        )
        raise InvalidArgumentError(msg, spec=spec)


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
