"""Orders devices so that neighbours along a mesh axis are neighbours in the hardware."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from devrt.sharding.partition import Shape

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["order_by_topology"]


def order_by_topology(devices: Iterable[Device], mesh_shape: Shape = ()) -> list[Device]:
    """Order devices for a mesh of a shape.

    Their position in the hardware is read from the attributes ``coords`` (a sequence of int) and
    ``core_on_chip`` (an int, 0 where there is none). Where the devices fill a box of coordinates
    and each mesh axis can be given box dimensions of its size, consecutive positions along every
    mesh axis are one step apart; else, where there are coordinates, it is a walk through all
    devices from neighbour to neighbour; else the order of the ids. So it is for GPUs, whose
    ``coords`` only count them: by partition, process and device. They have a ``partition_index``.
    """
    given = list(devices)
    points = [_point_of(device) for device in given]
    if not given or any(point is None for point in points):
        return sorted(given, key=lambda device: device.id)
    at = dict(zip((point for point in points if point is not None), given, strict=True))
    if len(at) < len(given) or len({len(point) for point in at}) > 1:
        return sorted(given, key=lambda device: device.id)
    extents = [sorted(set(values)) for values in zip(*at, strict=True)]
    box = tuple(map(len, extents))
    if math.prod(box) != len(given):
        return [at[point] for point in sorted(at, key=lambda point: _snake_key(point, extents))]
    steps = _along_axes(box, mesh_shape) or _snake(box)
    return [at[tuple(e[i] for e, i in zip(extents, step, strict=True))] for step in steps]


def _point_of(device: Any) -> Shape | None:
    coords = getattr(device, "coords", None)
    if coords is None or hasattr(device, "partition_index"):
        return None
    # Reversed, because the first coordinate is the one that ids count first.
    return (*reversed(tuple(coords)), getattr(device, "core_on_chip", None) or 0)


def _snake(box: Shape) -> Iterator[Shape]:
    """Walk through a box from neighbour to neighbour, the last dimension first."""
    if not box:
        yield ()
        return
    for i in range(box[0]):
        rest = list(_snake(box[1:]))
        yield from ((i, *step) for step in (reversed(rest) if i % 2 else rest))


def _snake_key(point: Shape, extents: Sequence[list[int]]) -> Shape:
    key = []
    parity = 0
    for value, extent in zip(point, extents, strict=True):
        position = extent.index(value)
        key.append(-position if parity % 2 else position)
        parity += position
    return tuple(key)


def _along_axes(box: Shape, mesh_shape: Shape) -> list[Shape] | None:
    """Give each dimension of the box to a mesh axis; None if no way of doing so fits."""
    real = [dimension for dimension, size in enumerate(box) if size > 1]
    for owners in itertools.product(range(len(mesh_shape)), repeat=len(real)):
        groups = [
            [d for d, owner in zip(real, owners, strict=True) if owner == axis]
            for axis in range(len(mesh_shape))
        ]
        if all(
            math.prod(box[d] for d in group) == size
            for group, size in zip(groups, mesh_shape, strict=True)
        ):
            return list(_combine(groups, box))
    return None


def _combine(groups: Sequence[Sequence[int]], box: Shape) -> Iterator[Shape]:
    walks = [list(_snake(tuple(box[d] for d in group))) for group in groups]
    for steps in itertools.product(*walks):
        point = [0] * len(box)
        for group, step in zip(groups, steps, strict=True):
            for dimension, value in zip(group, step, strict=True):
                point[dimension] = value
        yield tuple(point)
