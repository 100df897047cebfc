"""The grid of blocks that drawings show: which devices hold which block of up to two dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devrt.errors import InvalidArgumentError
from devrt.sharding.partition import Shape

if TYPE_CHECKING:
    from devrt.contract import Device
    from devrt.sharding.sharding import Sharding

__all__ = ["Grid", "grid_of", "label_of", "wrap"]


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """The blocks of an array, seen along one or two of its dimensions.

    ``rows`` and ``columns`` are first element and end of each block down and across. ``labels``
    name, for row and column, the devices that hold the block: the first preceded by what all have
    in common.
    """

    rows: tuple[tuple[int, int], ...]
    columns: tuple[tuple[int, int], ...]
    labels: dict[tuple[int, int], tuple[str, ...]]


def grid_of(shape: Sequence[int], sharding: Sharding, dims: Sequence[int] | None = None) -> Grid:
    """Return the grid of an array's blocks, along all dimensions if ``dims`` names none.

    A block then stands for all blocks behind it. Raises `InvalidArgumentError` if ``dims`` does not
    name one or two dimensions, or is missing for more than two.
    """
    shape = tuple(shape)
    shown = _shown_dimensions(shape, dims)
    bounds = {
        device: _pair(
            [cut.indices(size)[:2] for cut, size in zip(index, shape, strict=True)], shown
        )
        for device, index in sharding.devices_indices_map(shape).items()
    }
    rows = tuple(sorted({down for down, _ in bounds.values()}))
    columns = tuple(sorted({across for _, across in bounds.values()}))
    held: dict[tuple[int, int], list[Device]] = {}
    for device, (down, across) in bounds.items():
        held.setdefault((rows.index(down), columns.index(across)), []).append(device)
    return Grid(rows, columns, {cell: label_of(devices) for cell, devices in held.items()})


def _shown_dimensions(shape: Shape, dims: Sequence[int] | None) -> Shape:
    ndim = len(shape)
    if dims is None:
        if ndim > 2:
            msg = (
                f"An array of shape {shape} has {ndim} dimensions, and a drawing shows two. Name "
                f"those to draw, such as dims=(0, 1)."
            )
            raise InvalidArgumentError(msg, shape=shape, ndim=ndim)
        return tuple(range(ndim))
    shown = tuple(dim + ndim if dim < 0 else dim for dim in dims)
    if not 1 <= len(set(shown)) == len(shown) <= 2 or not all(0 <= dim < ndim for dim in shown):
        msg = (
            f"dims={tuple(dims)} does not name one or two different dimensions of an array of "
            f"shape {shape}. Use numbers from 0 to {ndim - 1}."
        )
        raise InvalidArgumentError(msg, dims=tuple(dims), shape=shape)
    return shown


def _pair(
    bounds: Sequence[tuple[int, int]], shown: Shape
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the bounds down and across; one dimension alone lies across."""
    down, across = [(0, 1), (0, 1), *(bounds[dim] for dim in shown)][-2:]
    return down, across


def label_of(devices: Sequence[Device]) -> tuple[str, ...]:
    """Name devices, as ``cpu:0``, ``1``, ``2`` where they differ in their ids only."""
    names = [str(device) for device in devices]
    head = names[0][: len(names[0]) - len(str(devices[0].id))]
    if all(name == f"{head}{device.id}" for name, device in zip(names, devices, strict=True)):
        return (names[0], *(str(device.id) for device in devices[1:]))
    return tuple(names)


def wrap(label: Sequence[str], width: int) -> list[str]:
    """Break a list of names into lines no wider than ``width``, where one name allows it."""
    lines = [label[0]]
    for name in label[1:]:
        lines[-1] += ","
        if len(lines[-1]) + len(name) + 1 > width:
            lines.append(name)
        else:
            lines[-1] += name
    return lines
