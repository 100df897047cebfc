"""What a transfer would cost, without making it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from devrt.arrays.array import Array
from devrt.arrays.put import resolve_target
from devrt.arrays.reshard import blocks_of, route_to
from devrt.arrays.staging import Target
from devrt.contract import Device, Memory
from devrt.errors import InvalidTypeError
from devrt.sharding import Sharding, SingleDeviceSharding, cost_of

__all__ = ["TransferCost", "transfer_cost"]

_ALIGNMENT = 64  # bytes, of buffers: a part that begins elsewhere cannot be one


@dataclasses.dataclass(frozen=True, slots=True)
class TransferCost:
    """What a change of sharding moves.

    Attributes
    ----------
    bytes_moved : int
        Bytes that are written, over all destination memories.
    least_bytes : int
        The fewest that any way of doing it could write.
    """

    bytes_moved: int
    least_bytes: int


def transfer_cost(x: Array, sharding: Any) -> TransferCost:
    """Return how many bytes `device_put` would move for ``x``, without moving any.

    Parameters
    ----------
    x
        An array that is on devices.
    sharding
        Where to, as for `device_put`: a device, a sharding, a memory, the name of a memory kind,
        or None, which leaves the array where it is.

    Raises
    ------
    InvalidTypeError
        If ``x`` is no array on devices, or the target is none.
    InvalidArgumentError
        If the shape does not fit the sharding, or there is no memory of this kind.
    """
    if type(x) is not Array:
        msg = (
            f"transfer_cost takes an array that is on devices, not one of type {type(x).__name__}. "
            "A host value is written whole to every memory that holds it: see its nbytes."
        )
        raise InvalidTypeError(msg, type=type(x).__name__)
    target, kind = resolve_target(x, sharding, "transfer_cost")
    if kind == "default":
        return TransferCost(0, 0)
    over = target if kind == "sharding" else _on_one(target)
    route, size = route_to(x, over), x.itemsize
    cost = cost_of(route.plan, blocks_of(x.sharding, x.shape), blocks_of(over, x.shape))
    shared = 0
    if route.targets and _memory_of(route.targets[0]).shares_parts:
        block = math.prod(over.shard_shape(x.shape))
        shared = block * sum(start * size % _ALIGNMENT == 0 for start in cost.part_starts)
    return TransferCost(
        (cost.elements_moved - shared) * size, (cost.least_elements - shared) * size
    )


def _on_one(target: Device | Memory) -> Sharding:
    if isinstance(target, Device):
        return SingleDeviceSharding(target)
    (device, *_) = target.addressable_by_devices()
    return SingleDeviceSharding(device, memory_kind=target.kind)


def _memory_of(target: Target) -> Memory:
    return target.default_memory() if isinstance(target, Device) else target
