"""How a value is divided over the devices of a program: which block of it each device holds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.sharding import PartitionSpec
from devrt.tracing.aval import ShapedArray, shaped
from devrt.tracing.sdy import Meshes

__all__ = ["Division"]

Blocks = tuple[int, ...]


class Division:
    """Which block of a value each device of a program holds.

    Two are equal if every device holds the same block, by whatever mesh they are named.

    Attributes
    ----------
    blocks : tuple of (tuple of int, or None)
        For each dimension the number of each device's block; None where it is not divided.
    mesh, spec
        What names the division; None of a whole value.
    """

    __slots__ = ("blocks", "mesh", "spec")

    def __init__(
        self,
        blocks: Sequence[Blocks | None],
        mesh: Any = None,
        spec: PartitionSpec | None = None,
    ) -> None:
        self.blocks = tuple(blocks)
        self.mesh = mesh
        self.spec = spec

    @classmethod
    def whole(cls, ndim: int) -> Division:
        """Return that of a value that every device holds whole."""
        return cls((None,) * ndim)

    @classmethod
    def of(cls, mesh: Any, spec: PartitionSpec, ndim: int, meshes: Meshes) -> Division:
        """Return what a spec over a mesh means for a program's devices.

        Parameters
        ----------
        mesh, spec
            The mesh, and the axes that divide each dimension.
        ndim
            How many dimensions the value has.
        meshes
            Those of the program, which number its devices.
        """
        entries = [*spec, *(None,) * (ndim - len(spec))]
        return cls([_blocks(mesh, entry, meshes) for entry in entries], mesh, spec)

    @property
    def is_whole(self) -> bool:
        """Whether every device holds all of the value."""
        return not any(self.blocks)

    def local(self, aval: ShapedArray) -> ShapedArray:
        """Return the type of one device's block of a value."""
        pairs = zip(aval.shape, self.blocks, strict=True)
        sizes = tuple([n // (max(each) + 1) if each else n for n, each in pairs])
        return shaped(sizes, aval.dtype, aval.weak_type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Division) and self.blocks == other.blocks

    def __hash__(self) -> int:
        return hash(self.blocks)

    def __repr__(self) -> str:
        return "whole" if self.is_whole else str(self.spec)


def _blocks(mesh: Any, entry: Any, meshes: Meshes) -> Blocks | None:
    """Return each device's block along a dimension that some axes divide."""
    axes = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
    sizes = [mesh.shape[axis] for axis in axes]
    if math.prod(sizes) == 1:
        return None
    where = np.indices(mesh.axis_sizes)
    positions = [where[mesh.axis_names.index(axis)] for axis in axes]
    found = np.zeros(mesh.size, int)
    found[meshes.numbers(mesh).ravel()] = np.ravel_multi_index(positions, sizes).ravel()
    return tuple(found.tolist())
