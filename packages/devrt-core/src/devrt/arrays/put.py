"""Putting one value or array on one target: what `device_put` does for each leaf."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt._support.words import kind_of
from devrt.arrays.array import Array
from devrt.arrays.checked import PUT, SHARDED, check_made
from devrt.arrays.dispatch_key import key_with
from devrt.arrays.external import is_on_device, taken_over
from devrt.arrays.guards import Config, check_transfer
from devrt.arrays.missing import NoShards, gone
from devrt.arrays.reshard import move_to_memory, reshard, targets_of
from devrt.arrays.tree import HOST_LEAVES
from devrt.contract import (
    Buffer,
    Client,
    Device,
    HostBufferSemantics,
    Memory,
    memory_kind_named,
    refuse_nulls,
)
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError
from devrt.runtime import default_runtime
from devrt.runtime.plugin_errors import check_count, raise_named
from devrt.sharding import Sharding, SingleDeviceSharding, is_addressable

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "ALIAS",
    "COPY",
    "TARGET_KINDS",
    "as_host",
    "as_host_array",
    "is_there",
    "no_array",
    "not_addressable",
    "put_array",
    "put_host",
    "resolve_target",
    "target_kind",
]

COPY = int(HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL)
ALIAS = int(HostBufferSemantics.IMMUTABLE_ZERO_COPY)

TARGET_KINDS: dict[type, str] = {type(None): "default", str: "kind"}
"""What a type of target is. Types of memories and shardings join when they are met, those of
devices when their buffers need no further check: what is put on a device in here is not checked."""


def target_kind(target: Any, operation: str = "device_put") -> str:
    """Return what a target is: ``"default"``, ``"kind"``, ``"device"``, ``"memory"`` ...

    Raises `InvalidTypeError` if nothing can be placed on it.
    """
    known = TARGET_KINDS.get(type(target))
    if known is not None:
        return known
    for base, kind in ((Device, "device"), (Sharding, "sharding"), (Memory, "memory")):
        if isinstance(target, base):
            if kind != "device":
                TARGET_KINDS[type(target)] = kind
            return kind
    from devrt.layout import Format  # not at the top: few programs need it

    if isinstance(target, Format):
        TARGET_KINDS[type(target)] = "format"
        return "format"
    msg = (
        f"{operation} cannot place on {target!r} of type {kind_of(target)}. "
        "Give a device of devrt.devices(), a sharding of devrt.sharding, a format, a "
        "memory, a memory kind's name, or None."
    )
    raise InvalidTypeError(msg, target=target)


def put_host(
    x: Any,
    target: Any,
    kind: str,
    semantics: int,
    operation: str = "device_put",
    *,
    is_explicit: bool = True,
    stays: bool = False,
) -> Array:
    """Put a host value on a target of a kind that `target_kind` named; does not wait.

    One that ``stays`` in the memory where it is is no transfer to the guards.
    """
    if type(x) not in HOST_LEAVES:
        refuse_nulls(x, operation)
        copy = True if semantics == COPY else None  # what may be shared need not be
        if is_on_device(x) and (taken := taken_over(x, copy, target)) is not None:
            return put_array(taken, target, kind, None, False, True, operation)
    # Requested before the guards: a guard that a configuration file sets is known only then.
    device = default_runtime().default_device() if kind in ("default", "kind") else None
    if Config.guards_are_set and not stays:
        where = device if target is None else target
        check_transfer("host_to_device", operation, x, where, is_explicit=is_explicit)
    if kind == "device":
        buffer = _single(x, target, target.client, semantics)
        if type(buffer) in PUT:
            TARGET_KINDS[type(target)] = kind
        return Array((buffer,))
    if kind == "sharding":
        return _put_sharded(x, target, semantics, operation)
    if kind == "format":
        from devrt.arrays.formats import put_in_format, sharding_of

        if target.layout is None:
            return _put_sharded(x, sharding_of(target, operation), semantics, operation)
        x = as_host(x)
        made = put_in_format(x, target, semantics)
        _check_same(x, made.sharding, operation)
        return made
    if kind == "memory":
        (device, *_) = target.addressable_by_devices()
    assert device is not None
    if kind == "default":
        buffer = device.client.buffer_from_pyval(x, device, False, semantics)
        if type(buffer) not in PUT:  # here, as this is on the way of most puts
            _check_made(buffer, x, device, device.client)
        return Array((buffer,), None, None, False)
    memory = _memory(target, device, operation)
    return Array((_single(x, memory, device.client, semantics),))


def _memory(target: Memory | str, device: Device, operation: str) -> Memory:
    if not isinstance(target, str):
        return target
    kinds = [memory.kind for memory in device.addressable_memories()]
    target = memory_kind_named(target, kinds)
    if target not in kinds:
        import difflib

        near = difflib.get_close_matches(target, kinds, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else _platform_hint(target)
        msg = (
            f"{operation} takes the name of a memory kind ({', '.join(kinds)} on {device}), and "
            f"{target!r} is none. {hint}"
        )
        raise InvalidArgumentError(msg, target=target, kinds=tuple(kinds))
    return device.memory(target)


def _platform_hint(name: str) -> str:
    """Return what to pass in place of a text such as ``"cpu:1"``, or to install for it."""
    from devrt.plugins.discovery.known import advice_for, wheels_for

    platform, _, number = name.rpartition(":")
    if not platform or not number.isdecimal():
        platform, number = name, "0"
    if default_runtime().plugins.refs_for((platform.lower(),)):
        return f"For a platform's device pass devrt.devices({platform!r})[{int(number)}]."
    if wheels := wheels_for(platform.lower()):
        return f"A device of that platform needs its backend: {advice_for(wheels[0])}."
    return "A device is one of devrt.devices()."


def _put_sharded(x: Any, sharding: Sharding, semantics: int, operation: str) -> Array:
    if isinstance(sharding, SingleDeviceSharding):
        (device,) = sharding._device_assignment
        (target,) = targets_of((device,), sharding.memory_kind)
        return Array((_single(x, target, device.client, semantics),), sharding)
    if type(x).__module__ != "numpy":  # only NumPy's own arrays are taken at their word
        x = as_host(x)
    shape = x.shape
    plan = sharding.placement(shape)
    if not plan.devices:
        return Array(NoShards(x.dtype, sharding), sharding, shape)
    targets = targets_of(plan.devices, sharding.memory_kind)
    client = plan.devices[0].client
    buffers = client.batched_buffer_from_pyval(
        x, targets, plan.offsets, plan.shard_shape, semantics
    )
    check_count(buffers, len(targets), client, "batched_buffer_from_pyval")
    if type(buffers[0]) not in SHARDED:
        spec = (plan.shard_shape, x.dtype)
        check_made(SHARDED, buffers, targets, client, "batched_buffer_from_pyval", spec)
    if len(targets) != sharding.num_devices:  # here, as this is on the way of many puts
        _check_same(x, sharding, operation)
    return Array(buffers, sharding, shape)


def _check_same(x: np.ndarray[Any, Any], sharding: Sharding, operation: str) -> None:
    if len(sharding.placement(x.shape).devices) != sharding.num_devices:
        from devrt.arrays.same_values import check_same  # only jobs of several processes need it

        check_same(x, sharding, operation)


def _single(x: Any, target: Any, client: Client, semantics: int) -> Buffer:
    try:
        buffer: Buffer = client.buffer_from_pyval(x, target, False, semantics)
    except Exception as error:
        if type(x).__module__ == "numpy":  # another value may run code of its own, and fail in it
            raise_named(error, client, "buffer_from_pyval")
        raise
    if type(buffer) not in PUT:
        _check_made(buffer, x, target, client)
    return buffer


def _check_made(buffer: Buffer, x: Any, target: Any, client: Client) -> None:
    # Of a value that is not NumPy's the shape is not known.
    spec = (x.shape, x.dtype) if type(x).__module__ == "numpy" else None
    check_made(PUT, (buffer,), (target,), client, "buffer_from_pyval", spec)


def as_host(x: Any) -> np.ndarray[Any, Any]:
    """Return a value as a NumPy array, Python scalars as 32-bit types if they fit."""
    import numpy as np

    if isinstance(x, bytes | bytearray):
        return np.frombuffer(x, np.uint8)
    narrow = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}
    wide = type(x) is int and not -(2**31) <= x < 2**31
    return as_host_array(x, np.int64 if wide else narrow.get(type(x)))


def as_host_array(
    x: Any, dtype: Any = None, operation: str = "reading it as an array"
) -> np.ndarray[Any, Any]:
    """Return what ``numpy.asarray`` makes of a value.

    Raises `InvalidTypeError` if it makes nothing of it, or elements are missing.
    """
    import numpy as np

    if type(x) not in HOST_LEAVES:
        refuse_nulls(x, operation)
    try:
        return np.asarray(x, dtype=dtype)
    except (TypeError, ValueError) as error:
        if isinstance(error, DevrtError):
            raise
        raise no_array(x, error) from error


def no_array(x: Any, error: Exception) -> InvalidTypeError:
    """Return the error for a value that raised when it was read as an array."""
    kind = type(x).__name__
    msg = f"a value of type {kind} cannot be read as an array: {str(error).rstrip('.')}."
    if type(x).__module__ == "builtins":  # other libraries know what to do with theirs
        msg += " Convert it first, for example with numpy.asarray(x, dtype='float32')."
    return InvalidTypeError(msg, type=kind)


def not_addressable(
    error: DevrtError, target: Any, kind: str, operation: str
) -> InvalidArgumentError | None:
    """Return the error for a target in another process, if that is what ``error`` is about."""
    if type(error) is not DevrtError:
        return None
    devices: tuple[Device, ...] = ()
    if kind == "device":
        devices = (target,)
    elif kind == "memory":
        devices = tuple(target.addressable_by_devices())
    elif kind == "sharding":
        devices = target._device_assignment
    elif kind == "format":
        devices = target.sharding._device_assignment
    if not devices or any(map(is_addressable, devices)):
        return None
    msg = (
        f"{operation} cannot place on {devices[0]}: it belongs to process "
        f"{devices[0].process_index}, and only that process puts values there. Use one of "
        "devrt.local_devices(), or a NamedSharding over the devices of all processes."
    )
    return InvalidArgumentError(msg, operation=operation, device=str(devices[0]))


# -- device arrays ----------------------------------------------------------------------------


def put_array(
    x: Array,
    target: Any,
    kind: str,
    src: Any,
    donate: bool,
    may_alias: bool | None,
    operation: str = "device_put",
) -> Array:
    """Put an array that is on devices already on a target; does not wait."""
    if src is not None:
        _check_source(x, src)
    if donate and may_alias:
        msg = f"{operation} with donate=True deletes the array that may_alias=True would share."
        raise InvalidArgumentError(f"{msg} Give one of them.", operation=operation)
    if x.is_deleted():
        raise gone(x, operation)
    if kind == "kind":
        target, kind = resolve_target(x, target, operation)
    if Config.guards_are_set and not is_there(x, target, kind):
        check_transfer("device_to_device", operation, x, target, is_explicit=True)
    placed = _moved(x, target, kind, may_alias is not False)
    if placed is not x and x.weak_type:
        placed._key = key_with(x.aval, placed.sharding, placed._committed)
    if donate:
        placed = placed.clone() if placed is x else placed
        x.delete()
    return placed


def resolve_target(x: Array, target: Any, operation: str) -> tuple[Any, str]:
    """Return where a target puts an array, and what it is; a memory kind is a sharding there."""
    kind = target_kind(target, operation)
    if kind != "kind":
        return target, kind
    _memory(target, _a_device(x), operation)
    return x.sharding.with_memory_kind(target), "sharding"


def _a_device(x: Array) -> Device:
    if x._buffers:
        return x._buffers[0].device
    # The client's devices have the same kinds of memory; only those of this process tell them.
    remote = next(iter(x.devices()))
    return next(iter(remote.client.local_devices()), remote)


def _moved(x: Array, target: Any, kind: str, may_alias: bool) -> Array:
    if kind == "default":
        return x if may_alias else x.copy()
    if kind == "sharding":
        return reshard(x, target, may_alias)
    if kind == "format":
        from devrt.arrays.formats import move_to_format

        return move_to_format(x, target, may_alias)
    if kind == "device":
        return move_to_memory(x, target, target.default_memory(), may_alias)
    return move_to_memory(x, target.addressable_by_devices()[0], target, may_alias)


def is_there(x: Array, target: Any, kind: str) -> bool:
    """Return whether ``x`` lies on the target already, so that nothing is moved."""
    if kind == "default":
        return True
    if kind == "sharding":
        return bool(x.sharding.is_equivalent_to(target, x.ndim))
    if kind == "format":
        from devrt.arrays.formats import is_in_format

        return is_in_format(x, target)
    memory = target.default_memory() if kind == "device" else target
    return len(x._buffers) == 1 and x._buffers[0].memory is memory


def _check_source(x: Array, src: Any) -> None:
    expected = set(src.device_set) if isinstance(src, Sharding) else {src}
    if x.devices() != expected:
        msg = (
            f"src={src!r} does not say where the array is: it is on "
            f"{sorted(map(str, x.devices()))}. Leave src out, or correct it."
        )
        raise InvalidArgumentError(msg, src=src)
