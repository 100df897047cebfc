"""Partitions: a spec resolved against the axes of a mesh, and the checks of a shape against it."""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from typing import TypeAlias

from devrt._support.words import kind_of
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.sharding.spec import PartitionSpec, axes_of

__all__ = ["MeshShape", "Partition", "Shape"]

MeshShape: TypeAlias = tuple[tuple[str, int], ...]
Shape: TypeAlias = tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Partition:
    """A spec over the axes of one mesh, whatever its devices.

    ``axes`` are for each entry of the spec the mesh axes that divide the dimension, outermost
    first, and ``counts`` the products of their sizes: the number of blocks.
    """

    axes: tuple[tuple[str, ...], ...]
    counts: tuple[int, ...]
    mesh_shape: MeshShape

    @classmethod
    def from_spec(cls, spec: PartitionSpec, mesh_shape: MeshShape | Mapping[str, int]) -> Partition:
        """Resolve a spec.

        Raises `InvalidArgumentError` if it names an axis that the mesh lacks, or one axis twice.
        """
        _check_is_spec(spec)
        if isinstance(mesh_shape, Mapping):
            mesh_shape = tuple(mesh_shape.items())
        sizes = dict(mesh_shape)
        axes = tuple(map(axes_of, spec.partitions))
        _check_axes(spec, axes, sizes)
        counts = tuple(math.prod(map(sizes.__getitem__, names)) for names in axes)
        return cls(axes, counts, mesh_shape)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every position of the mesh holds the whole array."""
        return all(count == 1 for count in self.counts)

    @property
    def effective_axes(self) -> tuple[tuple[str, ...], ...]:
        """``axes`` without axes of size 1 and trailing dimensions that are not divided.

        On one mesh, two partitions place every array alike exactly when these are equal.
        """
        sizes = dict(self.mesh_shape)
        axes = self.trimmed().axes
        return tuple(tuple(name for name in names if sizes[name] > 1) for names in axes)

    def trimmed(self) -> Partition:
        """Return the partition without trailing entries that divide nothing."""
        keep = len(self.axes)
        while keep and self.counts[keep - 1] == 1:
            keep -= 1
        return Partition(self.axes[:keep], self.counts[:keep], self.mesh_shape)

    def check_rank(self, shape: Shape) -> None:
        """Raise `InvalidArgumentError` if the spec has more entries than the shape dimensions."""
        if len(self.axes) > len(shape):
            msg = (
                f"A partition spec with {len(self.axes)} entries cannot divide an array of shape "
                f"{shape}, which has {len(shape)} dimensions. Give at most one entry per dimension."
            )
            raise InvalidArgumentError(msg, rank=len(shape), entries=len(self.axes), shape=shape)

    def shard_shape(self, shape: Shape) -> Shape:
        """Return the shape of one block of an array of shape ``shape``.

        Raises `InvalidArgumentError` if the spec is too long for it, or a dimension does not divide
        evenly.
        """
        self.check_rank(shape)
        if any(size % count for size, count in zip(shape, self.counts, strict=False)):
            self._raise_indivisible(shape)
        counts = self.counts + (1,) * (len(shape) - len(self.counts))
        return tuple(size // count for size, count in zip(shape, counts, strict=True))

    def _raise_indivisible(self, shape: Shape) -> None:
        sizes = dict(self.mesh_shape)
        for dimension, (size, count) in enumerate(zip(shape, self.counts, strict=False)):
            if size % count == 0:
                continue
            names = self.axes[dimension]
            padded = -(-size // count) * count
            over = " and ".join(f"{name!r} (size {sizes[name]})" for name in names)
            msg = (
                f"Dimension {dimension} of an array of shape {shape} has size {size}, which does "
                f"not divide into {count} equal blocks over mesh {_plural('axis', names)} {over}. "
                f"Pad the dimension to {padded}, or divide another dimension or by another axis."
            )
            raise InvalidArgumentError(
                msg,
                dimension=dimension,
                size=size,
                axes=names,
                partitions=count,
                shape=shape,
                padded_size=padded,
            )


def _check_is_spec(spec: object) -> None:
    if not isinstance(spec, PartitionSpec):
        msg = (
            f"A sharding needs a PartitionSpec, but got {spec!r} of type {kind_of(spec)}. "
            f"Write PartitionSpec('axis', None, ...)."
        )
        raise InvalidTypeError(msg, spec=spec)


def _plural(word: str, items: tuple[str, ...]) -> str:
    return word if len(items) == 1 else "axes"


def _check_axes(
    spec: PartitionSpec, axes: tuple[tuple[str, ...], ...], sizes: Mapping[str, int]
) -> None:
    seen: set[str] = set()
    for name in (name for names in axes for name in names):
        if name not in sizes:
            _raise_unknown(spec, name, tuple(sizes))
        if name in seen:
            msg = (
                f"{spec} uses mesh axis {name!r} more than once; an axis can divide at most one "
                f"dimension, once. Remove all but one; the mesh {_has(tuple(sizes))}."
            )
            raise InvalidArgumentError(msg, axis=name, axis_names=tuple(sizes), spec=spec)
        seen.add(name)
    for kind in ("unreduced", "reduced"):
        if unknown := sorted(getattr(spec, kind) - sizes.keys()):
            msg = (
                f"{kind.capitalize()} axes {unknown} of {spec} are not found in mesh axes "
                f"{tuple(sizes)}. Name axes of the mesh."
            )
            raise InvalidArgumentError(msg, spec=spec, axis_names=tuple(sizes))


def _has(names: tuple[str, ...]) -> str:
    return f"has the axes {', '.join(map(repr, names))}" if names else "has no axes"


def _raise_unknown(spec: PartitionSpec, name: str, names: tuple[str, ...]) -> None:
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    msg = f"{spec} names mesh axis {name!r}, but the mesh {_has(names)}.{hint}"
    raise InvalidArgumentError(msg, axis=name, axis_names=names, spec=spec)
