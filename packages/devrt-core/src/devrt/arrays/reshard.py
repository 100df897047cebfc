"""Moving arrays between shardings: each byte at most once for each memory that it goes to."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Sequence
from typing import Any

from devrt.arrays.array import Array
from devrt.arrays.checked import COPIED, check_made
from devrt.arrays.missing import NoShards, held_elsewhere
from devrt.arrays.staging import Target, assemble_across, client_of, copy_across
from devrt.contract import Buffer, Device, Memory
from devrt.errors import InvalidArgumentError
from devrt.runtime.plugin_errors import check_count, names_plugins
from devrt.sharding import Blocks, CopyPlan, Placement, Sharding, SingleDeviceSharding, plan_copies

__all__ = [
    "blocks_of",
    "forget_routes",
    "memory_on",
    "move_to_memory",
    "reshard",
    "route_to",
    "targets_of",
]

_MAX_SHAPES = 64


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """A copy plan with the targets it is for."""

    plan: CopyPlan
    targets: tuple[Target, ...]
    is_one_client: bool


# Routes by target, then by source, then by shape. Both shardings are weak keys, and a route refers
# to neither, so that what is kept here keeps no sharding alive.
_Routes = weakref.WeakKeyDictionary[Sharding, dict[tuple[int, ...], Route]]
_routes: weakref.WeakKeyDictionary[Sharding, _Routes] = weakref.WeakKeyDictionary()

# The shardings onto one device that arrays came to a sharding from, or went to from it. They are
# made for each array; the ones kept here are what the routes of later arrays are found by.
_Singles = dict[tuple[Device, str | None], SingleDeviceSharding]
_singles: weakref.WeakKeyDictionary[Sharding, _Singles] = weakref.WeakKeyDictionary()


@names_plugins
def reshard(x: Array, sharding: Sharding, may_alias: bool = True) -> Array:
    """Return ``x`` under another sharding; does not wait for the devices.

    Blocks that a memory holds already are shared where ``may_alias``; others are made once for each
    memory, of parts of the shards, and never from the whole array unless the target is whole.
    Raises `InvalidArgumentError` if the shape does not fit the sharding, or this process lacks
    parts.
    """
    if isinstance(sharding, SingleDeviceSharding) and x.is_fully_replicated:
        (device,) = sharding._device_assignment
        memory = memory_on(device, sharding.memory_kind)
        return Array((_copy_whole(x, device, memory, may_alias),), sharding)
    route = route_to(x, sharding)
    if not route.targets:
        return Array(NoShards(x.dtype, sharding), sharding, x.shape)
    return Array(_moved(route, x._buffers, may_alias), sharding, x.shape)


@names_plugins
def move_to_memory(x: Array, device: Device, memory: Memory, may_alias: bool = True) -> Array:
    """Return all of ``x`` on one memory of one device; does not wait for the devices."""
    if x.is_fully_replicated:
        return Array((_copy_whole(x, device, memory, may_alias),))
    kept = _singles_of(x.sharding)
    key = (device, memory.kind)
    if key not in kept:
        kept[key] = SingleDeviceSharding(device, memory_kind=memory.kind)
    return Array(_moved(route_to(x, kept[key]), x._buffers, may_alias))


def _copy_whole(x: Array, device: Device, memory: Memory, may_alias: bool) -> Buffer:
    """Copy the buffer that is on the device if there is one, else any."""
    if not x._buffers:
        raise held_elsewhere(x, "device_put")
    source = next((b for b in x._buffers if b.device is device), x._buffers[0])
    if source.device.client is device.client:
        copied = source.copy_to_memory(memory, may_alias=may_alias)
    else:
        copied = copy_across([source], [memory])[0]
    if type(copied) not in COPIED:
        spec = (source.shape, source.dtype)
        check_made(COPIED, (copied,), (memory,), device.client, "copy_to_memory", spec)
    return copied


def _singles_of(sharding: Sharding) -> _Singles:
    kept = _singles.get(sharding)
    return _singles.setdefault(sharding, {}) if kept is None else kept


def forget_routes() -> None:
    """Drop every plan that is kept."""
    _routes.clear()
    _singles.clear()


def memory_on(device: Device, kind: str | None) -> Memory:
    """Return the memory of a kind on a device; the default one for None."""
    return device.default_memory() if kind is None else device.memory(kind)


def targets_of(devices: Sequence[Device], kind: str | None) -> tuple[Target, ...]:
    """Return what a client is to be given to put a buffer on each device in a memory of a kind."""
    if kind is None or not devices or kind == devices[0].default_memory().kind:
        return tuple(devices)
    return tuple(device.memory(kind) for device in devices)


def route_to(x: Array, sharding: Sharding) -> Route:
    """Return how an array gets to a sharding; kept for the next array of its like."""
    source, shape = _source_of(x, sharding), x.shape
    try:
        return _routes[sharding][source][shape]
    except KeyError:
        pass
    by_source = _routes.get(sharding)
    if by_source is None:
        by_source = _routes.setdefault(sharding, weakref.WeakKeyDictionary())
    by_shape = by_source.get(source)
    if by_shape is None or len(by_shape) >= _MAX_SHAPES:
        by_source[source] = by_shape = {}
    by_shape[shape] = route = _find_route(x, sharding)
    return route


def _source_of(x: Array, target: Sharding) -> Sharding:
    """Return the array's sharding; for one device, an equal one that outlives the array."""
    if x._sharding is not None or isinstance(target, SingleDeviceSharding):
        return x.sharding
    kept, buffer = _singles_of(target), x._buffers[0]
    key = (buffer.device, buffer.memory.kind)
    if key not in kept:
        kept[key] = SingleDeviceSharding(key[0], memory_kind=key[1])
    return kept[key]


def _find_route(x: Array, sharding: Sharding) -> Route:
    target = sharding.placement(x.shape)
    if target.devices and not x._buffers:
        raise held_elsewhere(x, "device_put")
    plan = _plan_of(x, sharding)
    clients = {id(device.client) for device in target.devices}
    clients |= {id(buffer.device.client) for buffer in x._buffers}
    targets = targets_of(target.devices, sharding.memory_kind)
    return Route(plan, targets, len(clients) == 1)


def _plan_of(x: Array, sharding: Sharding) -> CopyPlan:
    try:
        return plan_copies(blocks_of(x.sharding, x.shape), blocks_of(sharding, x.shape))
    except InvalidArgumentError as error:
        if x.is_fully_addressable:
            raise
        msg = (
            f"this array of shape {x.shape} spans processes, and device_put to {sharding} needs "
            "parts of it that are held by other processes. Gather it in every process with "
            "devrt.experimental.multihost_utils.process_allgather."
        )
        raise InvalidArgumentError(msg, shape=x.shape) from error


def blocks_of(sharding: Sharding, shape: tuple[int, ...]) -> Blocks:
    """Return the blocks of a shape under a sharding, each in its address space."""
    placement: Placement = sharding.placement(shape)
    kind = sharding.memory_kind
    spaces = tuple(memory_on(device, kind).address_space for device in placement.devices)
    return Blocks(placement.shard_shape, placement.offsets, spaces)


def _moved(route: Route, sources: Sequence[Buffer], may_alias: bool) -> Sequence[Buffer]:
    made, targets = _follow(route, sources, may_alias), route.targets
    client = client_of(targets[0])
    check_count(made, len(targets), client, "the copy")
    if type(made[0]) not in COPIED:
        check_made(COPIED, made, targets, client, "the copy")
    return made


def _follow(route: Route, sources: Sequence[Buffer], may_alias: bool) -> Sequence[Buffer]:
    plan, targets = route.plan, route.targets
    client = client_of(targets[0])
    if route.is_one_client and len(plan.whole) == len(targets):
        return client.batched_copy_to_memory(
            [sources[s] for _, s in plan.whole], targets, may_alias
        )
    if route.is_one_client and len(plan.assembled) == len(targets) and plan.assembly is not None:
        used = [sources[s] for s in plan.used]
        return client.assemble_buffers(used, plan.assembly, targets, may_alias)
    made: list[Any] = [None] * len(targets)
    if plan.whole:
        kept = [sources[s] for _, s in plan.whole]
        where = [targets[t] for t, _ in plan.whole]
        if route.is_one_client:
            copies = client.batched_copy_to_memory(kept, where, may_alias)
        else:
            copies = copy_across(kept, where)
        for (t, _), buffer in zip(plan.whole, copies, strict=True):
            made[t] = buffer
    if plan.assembly is not None:
        used = [sources[s] for s in plan.used]
        where = [targets[t] for t in plan.assembled]
        if route.is_one_client:
            blocks = client.assemble_buffers(used, plan.assembly, where, may_alias)
        else:
            blocks = assemble_across(used, plan.assembly, where)
        for t, buffer in zip(plan.assembled, blocks, strict=True):
            made[t] = buffer
    if plan.shared:
        leaders = [made[other] for _, other in plan.shared]
        copies = client.batched_copy_to_memory(leaders, [targets[t] for t, _ in plan.shared], True)
        for (t, _), buffer in zip(plan.shared, copies, strict=True):
            made[t] = buffer
    return made
