"""Batched operations under jaxlib's names: one call into each client, not one for each shard."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from devrt.arrays.array import Array
from devrt.arrays.missing import held_elsewhere
from devrt.arrays.placement import wait_for
from devrt.arrays.put import COPY, as_host
from devrt.arrays.reshard import targets_of
from devrt.arrays.staging import client_of, copy_across
from devrt.contract import Buffer, Device, HostBufferSemantics
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.runtime.plugin_errors import names_plugins
from devrt.sharding import Sharding

__all__ = [
    "ArrayCopySemantics",
    "array_result_handler",
    "batched_block_until_ready",
    "batched_copy_array_to_devices_with_sharding",
    "batched_device_put",
    "reorder_shards",
]


class ArrayCopySemantics(enum.IntEnum):
    """What a copy may do with the array that it copies."""

    ALWAYS_COPY = 0
    """The result has memory of its own."""
    REUSE_INPUT = 1
    """The result may share memory with the input, which stays as it is."""
    DONATE_INPUT = 2
    """The input is deleted, and the result may have its memory."""


@names_plugins
def batched_device_put(
    aval: Any,
    sharding: Sharding,
    shards: Sequence[Any],
    devices: Sequence[Device],
    committed: bool = False,
    force_copy: bool = False,
    host_buffer_semantics: int | None = None,
) -> Array:
    """Put one shard on each device, and see them as one array.

    Parameters
    ----------
    aval
        What the array is: anything with a ``shape`` and a ``dtype``.
    sharding
        How the shards make up the array.
    shards
        Host values or arrays on one device, one for each device.
    devices
        The addressable devices of ``sharding``, in the order of ``shards``.
    committed
        Whether the array counts as placed on request.
    force_copy
        Copy shards that are on their device already instead of sharing their memory.
    host_buffer_semantics
        What is promised about host values; that they may change after the call when omitted.

    Returns
    -------
    Array
        Does not wait for the devices.

    Raises
    ------
    InvalidArgumentError
        If there is not one shard for each addressable device, or one does not fit.
    """
    if len(shards) != len(devices):
        msg = f"batched_device_put needs a shard per device: {len(shards)} for {len(devices)}."
        raise InvalidArgumentError(msg, shards=len(shards), devices=len(devices))
    semantics = COPY if host_buffer_semantics is None else int(host_buffer_semantics)
    if force_copy:
        semantics = min(semantics, int(HostBufferSemantics.IMMUTABLE_UNTIL_TRANSFER_COMPLETES))
    targets = targets_of(devices, sharding.memory_kind)
    buffers: list[Any] = [None] * len(shards)
    held = [i for i, shard in enumerate(shards) if _is_held(shard)]
    of_host = [i for i, shard in enumerate(shards) if not _is_held(shard)]
    _put_shards(shards, targets, of_host, buffers, semantics)
    sources = [_only_buffer(shards[i]) for i in held]
    _copy_buffers(sources, [targets[i] for i in held], held, buffers, not force_copy)
    return array_result_handler(aval, sharding, committed)(buffers)


def array_result_handler(
    aval: Any, sharding: Sharding, committed: bool, _skip_checks: bool = False
) -> Callable[[Sequence[Any]], Array]:
    """Return a function that makes an array of its shards.

    Parameters
    ----------
    aval
        What the array is: anything with a ``shape`` and a ``dtype``.
    sharding
        How the shards make up the array.
    committed
        Whether the array counts as placed on request.
    _skip_checks
        Take the shards as they are, in the order of the sharding's devices.

    Returns
    -------
    callable
        Takes the buffers, or the arrays on one device, of every addressable device in any order;
        returns the `Array`, which shares their memory. Raises `InvalidArgumentError` if a
        device has none or two, or a shape or dtype is not the one that the sharding gives.
    """
    shape = tuple(aval.shape)
    if _skip_checks:
        return lambda shards: Array([_only_buffer(s) for s in shards], sharding, shape, committed)
    placement = sharding.placement(shape)

    def handle(shards: Sequence[Any]) -> Array:
        buffers = [_only_buffer(shard) for shard in shards]
        ordered = _in_order(buffers, placement.devices, sharding)
        for buffer in ordered:
            if buffer.shape != placement.shard_shape or buffer.dtype != aval.dtype:
                msg = (
                    f"the shard on {buffer.device} must have shape {placement.shard_shape} and "
                    f"dtype {aval.dtype} for {sharding}, not {buffer.shape} and {buffer.dtype}."
                )
                raise InvalidArgumentError(msg, shape=buffer.shape, dtype=str(buffer.dtype))
        return Array(ordered, sharding, shape, committed)

    return handle


@names_plugins
def batched_copy_array_to_devices_with_sharding(
    arrays: Sequence[Array],
    devices: Sequence[Sequence[Device]],
    sharding: Sequence[Sharding],
    array_copy_semantics: Sequence[ArrayCopySemantics],
) -> list[Array]:
    """Copy the shards of arrays, in their order, to other devices.

    Parameters
    ----------
    arrays
        The arrays.
    devices
        For each a `DeviceList`, or another sequence, of as many devices as it has shards.
    sharding
        For each how the copied shards make up the array; must be over these devices.
    array_copy_semantics
        For each whether its memory may be shared, is given up, or must be copied.

    Returns
    -------
    list of Array
        Does not wait for the devices.

    Raises
    ------
    InvalidArgumentError
        If the sequences are not of one length, or an array does not fit its devices or sharding.
    DeletedError
        If an array was deleted.
    """
    if not len(arrays) == len(devices) == len(sharding) == len(array_copy_semantics):
        msg = (
            "batched_copy_array_to_devices_with_sharding takes as many arrays as device lists, "
            f"shardings and semantics: {len(arrays)}, {len(devices)}, {len(sharding)} and "
            f"{len(array_copy_semantics)}."
        )
        raise InvalidArgumentError(msg)
    copies: list[list[Any]] = [[None] * len(x._buffers) for x in arrays]
    jobs: dict[bool, list[tuple[Buffer, Any, int, int]]] = {True: [], False: []}
    for number, (x, to, over, semantics) in enumerate(
        zip(arrays, devices, sharding, array_copy_semantics, strict=True)
    ):
        _check_copy(x, to, over)
        may_alias = ArrayCopySemantics(semantics) is not ArrayCopySemantics.ALWAYS_COPY
        targets = targets_of(tuple(to), over.memory_kind)
        jobs[may_alias] += [
            (buffer, target, number, index)
            for index, (buffer, target) in enumerate(zip(x._buffers, targets, strict=True))
        ]
    for may_alias, job in jobs.items():
        made: list[Any] = [None] * len(job)
        sources, indices = [j[0] for j in job], [j[1] for j in job]
        _copy_buffers(sources, indices, range(len(job)), made, may_alias)
        for (_, _, number, index), buffer in zip(job, made, strict=True):
            copies[number][index] = buffer
    results = [
        Array(_in_order(buffers, over.placement(x.shape).devices, over), over, x.shape, x.committed)
        for x, over, buffers in zip(arrays, sharding, copies, strict=True)
    ]
    _delete_donated(arrays, array_copy_semantics)
    return results


@names_plugins
def reorder_shards(
    x: Array, dst_sharding: Sharding, array_copy_semantics: ArrayCopySemantics
) -> Array:
    """Return the shards of an array, each on its device, in the order of another sharding.

    No shard moves: which part of the array a shard is follows from its index in ``dst_sharding``.

    Parameters
    ----------
    x
        The array.
    dst_sharding
        A sharding over the same devices in any order, with shards of the same shape.
    array_copy_semantics
        Whether the result shares the memory, takes it, or has its own.

    Raises
    ------
    InvalidArgumentError
        If the devices or the shapes of the shards differ.
    DeletedError
        If the array was deleted.
    """
    placement = dst_sharding.placement(x.shape)
    if set(placement.devices) != {buffer.device for buffer in x._buffers}:
        msg = (
            f"reorder_shards moves no shard, so {dst_sharding} must be over the devices of the "
            f"array: {sorted(str(buffer.device) for buffer in x._buffers)}."
        )
        raise InvalidArgumentError(msg, sharding=dst_sharding)
    order = _in_order(x._buffers, placement.devices, dst_sharding)
    shards = Array(order, x.sharding, x.shape, x.committed)
    (result,) = batched_copy_array_to_devices_with_sharding(
        [shards], [placement.devices], [dst_sharding], [array_copy_semantics]
    )
    return result


@names_plugins
def batched_block_until_ready(x: Iterable[Any]) -> None:
    """Wait until every array, buffer or other value with ``block_until_ready`` is ready.

    One call to each client waits for all its arrays and buffers.

    Raises
    ------
    DevrtError
        The first error of the work that was to fill one.
    InvalidTypeError
        If ``x`` is no sequence, or an entry cannot be waited for.
    """
    if not isinstance(x, Iterable) or type(x) is Array:
        msg = (
            f"batched_block_until_ready takes a sequence of arrays and buffers, not one of type "
            f"{type(x).__name__}. Put it in a list."
        )
        raise InvalidTypeError(msg, type=type(x).__name__)
    values = list(x)
    for position, value in enumerate(values):
        if not (_is_held(value) or hasattr(value, "block_until_ready")):
            msg = (
                f"batched_block_until_ready waits for arrays and buffers, but entry {position} is "
                f"of type {type(value).__name__}. Leave it out; devrt.block_until_ready takes any."
            )
            raise InvalidTypeError(msg, type=type(value).__name__)
    wait_for(values)


# -- helpers ----------------------------------------------------------------------------------


def _is_held(shard: Any) -> bool:
    return type(shard) is Array or isinstance(shard, Buffer)


def _only_buffer(shard: Any) -> Buffer:
    if isinstance(shard, Buffer):
        return shard
    if type(shard) is Array and len(shard._buffers) == 1:
        return shard._buffers[0]
    msg = f"a shard is a buffer or an array on one device, not {shard!r}."
    raise InvalidTypeError(msg)


def _put_shards(
    shards: Sequence[Any],
    targets: Sequence[Any],
    indices: Sequence[int],
    buffers: list[Any],
    semantics: int,
) -> None:
    """Put host values: one call for those that are one object, and one for all the others."""
    if not indices:
        return
    client = client_of(targets[indices[0]])
    where = [targets[i] for i in indices]
    values = [shards[i] for i in indices]
    if len({id(value) for value in values}) == 1:
        host = as_host(values[0])
        offsets = [(0,) * host.ndim] * len(indices)
        made = client.batched_buffer_from_pyval(host, where, offsets, host.shape, semantics)
    else:
        made = client.buffers_from_pyvals(values, where, semantics)
    for index, buffer in zip(indices, made, strict=True):
        buffers[index] = buffer


def _copy_buffers(
    sources: Sequence[Buffer],
    targets: Sequence[Any],
    indices: Iterable[int],
    results: list[Any],
    may_alias: bool,
) -> None:
    """Copy buffers to targets: one call to each client where source and target are one's."""
    groups: dict[int, tuple[Any, list[tuple[Buffer, Any, int]]]] = {}
    across: list[tuple[Buffer, Any, int]] = []
    for source, target, index in zip(sources, targets, indices, strict=True):
        client = client_of(target)
        if source.device.client is client:
            groups.setdefault(id(client), (client, []))[1].append((source, target, index))
        else:
            across.append((source, target, index))
    made = copy_across([a[0] for a in across], [a[1] for a in across])
    for (_, _, index), buffer in zip(across, made, strict=True):
        results[index] = buffer
    for client, group in groups.values():
        made = client.batched_copy_to_memory(
            [g[0] for g in group], [g[1] for g in group], may_alias
        )
        for (_, _, index), buffer in zip(group, made, strict=True):
            results[index] = buffer


def _in_order(
    buffers: Sequence[Buffer], devices: Sequence[Device], sharding: Sharding
) -> list[Buffer]:
    by_device = {buffer.device: buffer for buffer in buffers}
    if len(by_device) != len(buffers) or by_device.keys() != set(devices):
        msg = (
            f"{sharding} needs one shard on each of {', '.join(map(str, devices))}, but the shards "
            f"are on {', '.join(str(buffer.device) for buffer in buffers)}."
        )
        raise InvalidArgumentError(msg, sharding=sharding)
    return [by_device[device] for device in devices]


def _check_copy(x: Array, devices: Sequence[Device], sharding: Sharding) -> None:
    if x.is_deleted():
        msg = f"an array of shape {x.shape} was deleted or donated, so it cannot be copied."
        raise DeletedError(msg, operation="batched_copy_array_to_devices_with_sharding")
    if not x._buffers:
        raise held_elsewhere(x, "batched_copy_array_to_devices_with_sharding")
    placement, shard_shape = sharding.placement(x.shape), x._buffers[0].shape
    fits = set(devices) == set(placement.devices) and len(devices) == len(x._buffers)
    if not fits or placement.shard_shape != shard_shape:
        msg = (
            f"the {len(x._buffers)} shards of shape {shard_shape} of an array of shape {x.shape} "
            f"do not fit {sharding} over {len(devices)} devices."
        )
        raise InvalidArgumentError(msg, sharding=sharding)


def _delete_donated(arrays: Sequence[Array], semantics: Sequence[int]) -> None:
    for x, how in zip(arrays, semantics, strict=True):
        if how == ArrayCopySemantics.DONATE_INPUT:
            x.delete()
