"""Putting values on devices and getting them back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from devrt.arrays import _tree
from devrt.arrays._array import Array
from devrt.arrays._tree import HOST_LEAVES
from devrt.contract import Buffer, Device, HostBufferSemantics, Memory
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.runtime import default_runtime
from devrt.sharding import Sharding, SingleDeviceSharding

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "block_until_ready",
    "copy_to_host_async",
    "default_device",
    "device_get",
    "device_put",
]

_COPY = int(HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL)
_ALIAS = int(HostBufferSemantics.IMMUTABLE_ZERO_COPY)

_target_kinds: dict[type, str] = {type(None): "default", str: "kind"}


def device_put(
    x: Any,
    device: Any = None,
    src: Any = None,
    *,
    donate: bool = False,
    may_alias: bool | None = None,
) -> Any:
    """Put a value, or every leaf of a tree of values, on a device or sharding.

    Parameters
    ----------
    x
        An array, a scalar, or any tree of them (dict, list, tuple, named tuple ...). NumPy arrays
        keep their dtype; Python scalars become 32-bit types, as in JAX.
    device
        A device, a sharding, a memory, or the name of a memory kind; or a tree of them whose
        structure is a beginning of that of ``x``. None takes the default device, and leaves an
        array that is on a device already where it is.
    src
        Where ``x`` comes from, as a device or sharding; checked, and otherwise not needed.
    donate
        Delete arrays in ``x`` once they are transferred.
    may_alias
        True lets the result share memory with ``x``: a NumPy array must then not change while
        the result lives. None and False copy host values before the call returns.

    Returns
    -------
    Array or tree of Array
        Does not wait for the device.

    Raises
    ------
    InvalidTypeError
        If a leaf is no array, has a dtype that no device holds, or the target is none.
    InvalidArgumentError
        If the shape does not divide over the sharding's mesh.
    OutOfMemoryError
        If the memory has no room.
    """
    kind = _target_kinds.get(type(device))
    if kind == "device" and type(x) in HOST_LEAVES:  # the common case, first
        semantics = _ALIAS if may_alias else _COPY
        return Array((device.client.buffer_from_pyval(x, device, False, semantics),))
    if not _tree.is_leaf(x):
        return _tree.map_leaves(
            lambda leaf, target: device_put(leaf, target, src, donate=donate, may_alias=may_alias),
            x,
            device,
        )
    if type(x) is Array:
        return _put_array(x, device, kind or _target_kind(device), src, donate, may_alias)
    return _put_host(x, device, kind or _target_kind(device), _ALIAS if may_alias else _COPY)


def device_get(x: Any) -> Any:
    """Return a value, or a tree of values, in host memory as NumPy arrays.

    Arrays on one host-visible device are not copied: the result is a read-only view that keeps
    the memory alive. Sharded arrays are gathered. Leaves that are no device arrays become what
    ``numpy.asarray`` makes of them.
    """
    if not _tree.is_leaf(x):
        return _tree.map_leaves(device_get, x)
    if type(x) is Array:
        return x._value()
    import numpy as np

    return np.asarray(x)


def copy_to_host_async(x: Any) -> Any:
    """Start copying every array in ``x``, a tree, to the host; return a future of `device_get`.

    Returns
    -------
    concurrent.futures.Future
        Its result is what ``device_get(x)`` returns. Host-visible arrays are not copied.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="devrt-copy-to-host")
    future: Future[Any] = pool.submit(device_get, x)
    pool.shutdown(wait=False)
    return future


def block_until_ready(x: Any) -> Any:
    """Wait for every array in ``x``, a tree of any values, and return ``x``.

    Raises
    ------
    DevrtError
        The first error of the work that was to fill an array.
    """
    for leaf in _tree.leaves(x):
        wait = getattr(leaf, "block_until_ready", None)
        if wait is not None:
            wait()
    return x


@contextlib.contextmanager
def default_device(device: Device | str | None) -> Iterator[None]:
    """Place arrays on ``device`` by default within a ``with`` block, in this thread or task.

    Parameters
    ----------
    device
        A device, a platform's name (its first local device), or None for the usual default.
    """
    given: Any = device  # callers are not bound by the annotation
    if not (given is None or isinstance(given, Device | str)):
        msg = (
            f"default_device takes a device, a platform's name or None, not {given!r} of type "
            f"{type(given).__name__}. Choose one, for example devrt.devices()[0]."
        )
        raise InvalidTypeError(msg, device=given)
    with default_runtime().config.override(default_device=device):
        yield


# -- targets ----------------------------------------------------------------------------------


def _target_kind(target: Any) -> str:
    for base, kind in ((Device, "device"), (Sharding, "sharding"), (Memory, "memory")):
        if isinstance(target, base):
            _target_kinds[type(target)] = kind
            return kind
    msg = (
        f"device_put cannot place on {target!r} of type {type(target).__name__}. "
        "Give a device, a sharding, a memory, a memory kind's name, or None."
    )
    raise InvalidTypeError(msg, target=target)


def _memory(target: Memory | str, device: Device) -> Memory:
    if not isinstance(target, str):
        return target
    kinds = [memory.kind for memory in device.addressable_memories()]
    if target not in kinds:
        msg = (
            f"device_put takes the name of a memory kind ({', '.join(kinds)} on {device}), and "
            f"{target!r} is none. For a platform's device pass devrt.devices({target!r})[0]."
        )
        raise InvalidArgumentError(msg, target=target, kinds=tuple(kinds))
    return device.memory(target)


# -- host values ------------------------------------------------------------------------------


def _put_host(x: Any, target: Any, kind: str, semantics: int) -> Array:
    if kind == "sharding":
        return _put_sharded(x, target, semantics)
    if kind == "default":
        device = default_runtime().default_device()
        buffer = device.client.buffer_from_pyval(x, device, False, semantics)
        return Array((buffer,), None, None, False)
    if kind == "device":
        return Array((target.client.buffer_from_pyval(x, target, False, semantics),))
    memory = _memory(target, default_runtime().default_device())
    (owner, *_) = memory.addressable_by_devices()
    return Array((owner.client.buffer_from_pyval(x, memory, False, semantics),))


def _put_sharded(x: Any, sharding: Sharding, semantics: int) -> Array:
    if isinstance(sharding, SingleDeviceSharding):
        (device,) = sharding.device_set
        target = _target_of(device, sharding)
        return Array((device.client.buffer_from_pyval(x, target, False, semantics),), sharding)
    if type(x).__module__ != "numpy":  # only NumPy's own arrays are taken at their word
        x = _as_host(x)
    shape = x.shape
    plan = sharding.placement(shape)
    if not plan.devices:
        msg = (
            f"no device of {sharding} belongs to this process, so it can hold no part of the array."
        )
        raise InvalidArgumentError(msg, sharding=sharding)
    first = plan.devices[0]
    targets: tuple[Device | Memory, ...] = plan.devices
    if sharding.memory_kind not in (None, first.default_memory().kind):
        targets = tuple(_target_of(device, sharding) for device in plan.devices)
    buffers = first.client.batched_buffer_from_pyval(
        x, targets, plan.offsets, plan.shard_shape, semantics
    )
    return Array(buffers, sharding, shape)


def _target_of(device: Device, sharding: Sharding) -> Device | Memory:
    kind = sharding.memory_kind
    return device if kind is None else device.memory(kind)


def _as_host(x: Any) -> np.ndarray[Any, Any]:
    import numpy as np

    if isinstance(x, bytes | bytearray):
        return np.frombuffer(x, np.uint8)
    narrow = {bool: np.bool_, int: np.int32, float: np.float32, complex: np.complex64}
    wide = type(x) is int and not -(2**31) <= x < 2**31
    return np.asarray(x, dtype=np.int64 if wide else narrow.get(type(x)))


# -- device arrays ----------------------------------------------------------------------------


def _put_array(
    x: Array, target: Any, kind: str, src: Any, donate: bool, may_alias: bool | None
) -> Array:
    if src is not None:
        _check_source(x, src)
    if x.is_deleted():
        x._gathered()  # raises, with the words for a deleted array
    placed = _moved(x, target, kind, may_alias is not False)
    if donate:
        placed = placed.clone() if placed is x else placed
        x.delete()
    return placed


def _moved(x: Array, target: Any, kind: str, may_alias: bool) -> Array:
    if kind == "default":
        return x
    if kind == "kind":
        _memory(target, x._buffers[0].device)
        return _moved(x, x.sharding.with_memory_kind(target), "sharding", may_alias)
    if kind == "sharding":
        return _resharded(x, target, may_alias)
    device, where = (
        (target, target.default_memory())
        if kind == "device"
        else (target.addressable_by_devices()[0], target)
    )
    source = _whole_buffer(x, device)
    if source is None:
        return Array((device.client.buffer_from_pyval(x._value(), where),))
    return Array((_transferred(source, where, device, may_alias),))


def _whole_buffer(x: Array, device: Device) -> Buffer | None:
    """Return a buffer that holds all of ``x``, on ``device`` if there is one; None if sharded."""
    if not x.is_fully_replicated:
        return None
    return next((b for b in x._buffers if b.device is device), x._buffers[0])


def _transferred(source: Buffer, memory: Memory, device: Device, may_alias: bool) -> Buffer:
    if source.device.client is device.client:
        return source.copy_to_memory(memory, may_alias=may_alias)
    return device.client.buffer_from_pyval(source.__array__(), memory)


def _resharded(x: Array, sharding: Sharding, may_alias: bool) -> Array:
    if isinstance(sharding, SingleDeviceSharding):
        (device,) = sharding.device_set
        target = _target_of(device, sharding)
        moved = _moved(x, target, "device" if target is device else "memory", may_alias)
        return Array(moved._buffers, sharding)
    plan = sharding.placement(x.shape)
    if _same_blocks(x, plan):
        buffers = tuple(
            _transferred(source, _memory_on(device, sharding), device, may_alias)
            for source, device in zip(x._buffers, plan.devices, strict=True)
        )
        return Array(buffers, sharding, x.shape)
    return _put_sharded(x._value(), sharding, _COPY)


def _same_blocks(x: Array, plan: Any) -> bool:
    if len(x._buffers) != len(plan.devices) or x._sharding is None:
        return False
    held = x.sharding.placement(x.shape)
    return bool(held.offsets == plan.offsets and held.shard_shape == plan.shard_shape)


def _memory_on(device: Device, sharding: Sharding) -> Memory:
    kind = sharding.memory_kind
    return device.default_memory() if kind is None else device.memory(kind)


def _check_source(x: Array, src: Any) -> None:
    expected = set(src.device_set) if isinstance(src, Sharding) else {src}
    if x.devices() != expected:
        msg = (
            f"src={src!r} does not say where the array is: it is on "
            f"{sorted(map(str, x.devices()))}. Leave src out, or correct it."
        )
        raise InvalidArgumentError(msg, src=src)
