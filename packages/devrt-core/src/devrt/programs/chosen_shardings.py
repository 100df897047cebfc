"""Shardings that a compiler chose, by the numbers of partitions, named by the axes of a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.sharding import Mesh, NamedSharding, PartitionSpec

if TYPE_CHECKING:
    from devrt.contract import Device
    from devrt.contract.op_sharding import OpSharding

__all__ = ["mesh_of", "named_sharding", "nearest_sharding"]

_TILED = 3


def mesh_of(axes: Sequence[tuple[str, int]], devices: Sequence[Device]) -> Mesh:
    """Return the mesh of a program's axes, by name and size, over the devices it runs on.

    Raises
    ------
    InvalidArgumentError
        If the sizes do not multiply to the number of devices.
    """
    sizes = [size for _, size in axes]
    if math.prod(sizes) != len(devices):
        msg = (
            f"the program's mesh {dict(axes)} has {math.prod(sizes)} devices, and it runs on "
            f"{len(devices)}. Give a mesh."
        )
        raise InvalidArgumentError(msg, operation="load_program")
    grid = np.empty(len(devices), object)
    grid[:] = list(devices)
    return Mesh(grid.reshape(sizes), tuple(name for name, _ in axes))


def named_sharding(
    sharding: OpSharding, mesh: Mesh, devices: Sequence[Device], memory_kind: str | None = None
) -> NamedSharding:
    """Return a compiler's sharding as one over the axes of a mesh.

    ``sharding`` is how a tensor is divided over the partitions of a program, ``devices`` has the
    device of each partition; a ``memory_kind`` of None is the devices' default. Raises
    `InvalidArgumentError` if the mesh has other devices, or its axes cannot say it.
    """
    partition_of = {device: number for number, device in enumerate(devices)}
    flat: list[Any] = list(mesh.devices.flat)
    if mesh.size != len(partition_of) or any(device not in partition_of for device in flat):
        msg = f"the program runs on {list(devices)}, which are not the devices of {mesh}."
        raise InvalidArgumentError(msg, operation="named_sharding")
    if sharding.is_replicated:
        return NamedSharding(mesh, PartitionSpec(), memory_kind=memory_kind)
    partitions = np.array([partition_of[device] for device in flat])
    by_dim = _axes_by_dim(sharding, mesh.devices.shape, partitions)
    if by_dim is None:
        msg = (
            f"the program divides a tensor as {sharding}, which the axes of {mesh} cannot say. "
            "Give the mesh that it was written for, or use execute_sharded."
        )
        raise InvalidArgumentError(msg, operation="named_sharding")
    return _over(mesh, by_dim, memory_kind)


def nearest_sharding(sharding: OpSharding, mesh: Mesh, devices: Sequence[Device]) -> NamedSharding:
    """Return a compiler's sharding without the divisions that the axes of a mesh cannot name."""
    partition_of = {device: number for number, device in enumerate(devices)}
    flat: list[Any] = list(mesh.devices.flat)
    partitions = np.array([partition_of[device] for device in flat])
    if sharding.is_replicated or sharding.kind != _TILED:
        return NamedSharding(mesh, PartitionSpec())
    found = _found_by_dim(sharding, mesh.devices.shape, partitions)
    by_dim: list[list[int]] = []
    for axes in found:
        used = {axis for one in by_dim for axis in one}
        by_dim.append([] if axes is None or used & set(axes) else axes)
    return _over(mesh, by_dim, None)


def _over(mesh: Mesh, by_dim: list[list[int]], memory_kind: str | None) -> NamedSharding:
    names = [[mesh.axis_names[axis] for axis in axes] for axes in by_dim]
    entries: list[Any] = [tuple(n) if len(n) > 1 else n[0] if n else None for n in names]
    while entries and entries[-1] is None:
        entries.pop()
    return NamedSharding(mesh, PartitionSpec(*entries), memory_kind=memory_kind)


def _axes_by_dim(
    sharding: OpSharding, sizes: tuple[int, ...], partitions: np.ndarray[Any, Any]
) -> list[list[int]] | None:
    """Return which axes divide each dimension, the outermost first; None if none can.

    A dimension's tiles are numbered in mixed radix by the positions along its axes. The number of
    a device's tile is a sum with one weight for each axis: the weights are found one by one, and
    tell the order of the axes; that the sum holds for every device is checked last.
    """
    if sharding.kind != _TILED:
        return None
    by_dim: list[list[int]] = []
    for axes in _found_by_dim(sharding, sizes, partitions):
        if axes is None:
            return None
        by_dim.append(axes)
    used = [axis for axes in by_dim for axis in axes]
    return by_dim if len(used) == len(set(used)) else None


def _found_by_dim(
    sharding: OpSharding, sizes: tuple[int, ...], partitions: np.ndarray[Any, Any]
) -> list[list[int] | None]:
    """Return which axes divide each dimension; None of one that no axes divide so."""
    index_of = np.empty(len(partitions), int)
    index_of[np.array(sharding.devices)] = np.arange(len(partitions))
    tiles = np.unravel_index(index_of[partitions], sharding.tile_dims)
    pairs = enumerate(sharding.partitions)
    return [_axes_of(tiles[dim].reshape(sizes), count) for dim, count in pairs]


def _axes_of(grid: np.ndarray[Any, Any], count: int) -> list[int] | None:
    """Return the axes along which a dimension's tiles are numbered; None if it is by none."""
    sizes = grid.shape
    weights = [_weight(grid, axis) for axis in range(grid.ndim)]
    axes = sorted((a for a, w in enumerate(weights) if w > 0), key=lambda a: -weights[a])
    expected = sum(
        weights[axis] * np.arange(size).reshape([-1 if a == axis else 1 for a in range(grid.ndim)])
        for axis, size in enumerate(sizes)
    )
    radix = [math.prod(sizes[a] for a in axes[i + 1 :]) for i in range(len(axes))]
    is_so = (
        np.array_equal(np.broadcast_to(expected, sizes), grid)
        and [weights[a] for a in axes] == radix
        and math.prod(sizes[a] for a in axes) == count
    )
    return axes if is_so else None


def _weight(grid: np.ndarray[Any, Any], axis: int) -> int:
    """Return by how much the tile's number grows from one position of an axis to the next."""
    if grid.shape[axis] < 2:
        return 0
    origin = [0] * grid.ndim
    second = [int(a == axis) for a in range(grid.ndim)]
    return int(grid[tuple(second)]) - int(grid[tuple(origin)])
