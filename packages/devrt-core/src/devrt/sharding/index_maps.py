"""Index maps: which block of an array lies at which position of a mesh. No device is involved."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from devrt.sharding.partition import MeshShape, Partition, Shape
from devrt.sharding.spec import PartitionSpec

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["Index", "IndexMap", "Placement", "index_map"]

Index: TypeAlias = tuple[slice, ...]
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True, slots=True)
class IndexMap:
    """The block of every mesh position, positions numbered row by row.

    Attributes
    ----------
    shard_shape : tuple of int
        Shape of every block.
    offsets : tuple of tuple of int
        For each position the index of its block's first element.
    indices : tuple of tuple of slice
        For each position what cuts its block out of the array: ``slice(None)`` in dimensions
        that are not divided, ``slice(start, stop)`` in those that are.
    replica_ids : tuple of int
        For each position how many earlier ones hold the same block.
    """

    shard_shape: Shape
    offsets: tuple[Shape, ...]
    indices: tuple[Index, ...]
    replica_ids: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """What goes where when this process puts an array: one entry per addressable device.

    ``devices`` are in the order of the sharding's device assignment. For each, ``offsets`` has the
    index, in the global array, of its block's first element, ``indices`` what cuts the block out of
    it, and ``replica_ids`` which copy of its block it holds, counted over all processes.
    """

    devices: tuple[Device, ...]
    offsets: tuple[Shape, ...]
    shard_shape: Shape
    indices: tuple[Index, ...]
    replica_ids: tuple[int, ...]


def index_map(
    shape: Iterable[int],
    spec: PartitionSpec | Partition,
    mesh_shape: MeshShape | Mapping[str, int] = (),
) -> IndexMap:
    """Divide an array over the positions of a mesh.

    A pure function of its arguments; the most recent answers are kept.

    Parameters
    ----------
    shape
        Shape of the array.
    spec
        A spec, or one that is already resolved (``mesh_shape`` is not looked at then).
    mesh_shape
        Size of each mesh axis, in the order of the mesh.

    Returns
    -------
    IndexMap
        One block per mesh position.

    Raises
    ------
    InvalidArgumentError
        If the spec does not fit the mesh or the shape.
    """
    if not isinstance(spec, Partition):
        spec = Partition.from_spec(spec, mesh_shape)
    return _index_map(tuple(shape), spec)


@functools.lru_cache(maxsize=256)
def _index_map(shape: Shape, partition: Partition) -> IndexMap:
    block = partition.shard_shape(shape)
    numbers, replica_ids = _positions(partition)
    offsets, cuts = [], []
    for size, count, column in zip(block, partition.counts, numbers, strict=False):
        blocks = [slice(n * size, (n + 1) * size) for n in range(count)]
        offsets.append([n * size for n in column])
        cuts.append([blocks[n] for n in column] if count > 1 else [slice(None)] * len(column))
    undivided = len(shape) - len(numbers)
    offsets += [[0] * len(replica_ids)] * undivided
    cuts += [[slice(None)] * len(replica_ids)] * undivided
    rows = _rows(offsets, len(replica_ids))
    if 0 in shape:  # all blocks of a divided dimension without elements are the same one
        replica_ids = tuple(_occurrences(rows))
    return IndexMap(block, rows, _rows(cuts, len(replica_ids)), replica_ids)


@functools.lru_cache(maxsize=256)
def _positions(partition: Partition) -> tuple[list[list[int]], tuple[int, ...]]:
    """Return, for every mesh position, its block number in each divided dimension and its replica.

    Along each array dimension a position's block number is its coordinates along the dimension's
    mesh axes, read as the digits of a mixed-radix number whose first digit counts most.
    """
    sizes = dict(partition.mesh_shape)
    columns = []
    for names in partition.axes:
        weights = dict.fromkeys(sizes, 0)
        weight = 1
        for name in reversed(names):
            weights[name] = weight
            weight *= sizes[name]
        digits = ([step * n for n in range(sizes[name])] for name, step in weights.items())
        columns.append(list(map(sum, itertools.product(*digits))))
    rows = _rows(columns, math.prod(sizes.values()))
    return columns, tuple(_occurrences(rows))


def _rows(columns: list[list[_T]], count: int) -> tuple[tuple[_T, ...], ...]:
    """Turn one list per dimension into one tuple for each of ``count`` positions."""
    return tuple(zip(*columns, strict=True)) if columns else ((),) * count


def _occurrences(items: Iterable[Shape]) -> Iterator[int]:
    """Yield for each item how many equal ones came before it."""
    seen: dict[Shape, int] = {}
    for item in items:
        count = seen.get(item, 0)
        seen[item] = count + 1
        yield count
