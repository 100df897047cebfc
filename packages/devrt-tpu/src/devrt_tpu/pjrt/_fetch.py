"""Reading buffers: through the pointer where the host sees the memory, else by a transfer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.errors import DevrtError
from devrt_tpu.pjrt._event import Event
from devrt_tpu.pjrt._native import ffi, lib

if TYPE_CHECKING:
    from devrt_tpu.pjrt._buffer import PjrtBuffer
    from devrt_tpu.pjrt._place import Place

__all__ = ["copy", "is_host_visible", "seal", "to_host", "to_numpy", "view"]

_COPIED = 1 << 16
"""Up to this many bytes a copy is cheaper than a view, which must be released again."""

_NEW_RESULT = ffi.typeof("devrt_result *")
_read = lib.devrt_read
_frombuffer = np.frombuffer


def _new_room() -> tuple[Any, Any]:
    """Return memory for a copy, and a view of it."""
    memory = ffi.new("char[]", _COPIED)
    return memory, ffi.buffer(memory)


def to_numpy(buffer: PjrtBuffer) -> np.ndarray[Any, Any]:
    """Wait for a buffer and return its data, row-major, as an array that is never writable."""
    spec, memory = buffer._spec, buffer._memory
    is_visible = memory._is_host_visible
    if is_visible is None:
        is_visible = is_host_visible(buffer)
    if not is_visible or spec.is_packed or not buffer._is_dense:
        return seal(to_host(buffer))
    if spec.nbytes > _COPIED:
        return view(buffer)
    client = buffer._client
    spare = client._results
    result = spare.pop() if spare else ffi.new(_NEW_RESULT)
    rooms = client._rooms
    room = rooms.pop() if rooms else _new_room()
    while True:
        status = _read(client._core, buffer._handle, room[0], spec.nbytes, result)
        if status == 0:
            spare.append(result)
            break
        if status != lib.DEVRT_WAITING:
            buffer._fail(status, "__array__", result)
        buffer._wait("__array__")
    data = room[1][: spec.nbytes]  # bytes: an array of them can never be made writable
    rooms.append(room)
    flat = _frombuffer(data, spec.dtype)
    return flat if len(spec.shape) == 1 else flat.reshape(spec.shape)


def seal(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a view of a fresh array that can never be made writable."""
    if not array.size:
        array.flags.writeable = False
        return array
    data = memoryview(array.reshape(-1).view(np.uint8)).toreadonly()  # type: ignore[arg-type]
    return np.frombuffer(data, array.dtype).reshape(array.shape)


def is_host_visible(buffer: PjrtBuffer) -> bool:
    """Return whether the host can read a buffer's memory through a pointer; found out once."""
    memory = buffer._memory
    if memory._is_host_visible is None:
        with buffer._pinned("IsOnCpu") as pointer:
            args = buffer._client._api.call("PJRT_Buffer_IsOnCpu", buffer=pointer)
        memory._is_host_visible = bool(args.is_on_cpu)
    return memory._is_host_visible


def view(buffer: PjrtBuffer) -> np.ndarray[Any, Any]:
    """Return the data without a copy; the view holds the memory, also when the client is closed."""
    spec = buffer._spec
    buffer._wait("__array__")
    with buffer._pinned("__array__") as pointer:
        api = buffer._client._api
        address = int(api.call("PJRT_Buffer_UnsafePointer", buffer=pointer).buffer_pointer)
        held = lib.devrt_hold(buffer._handle)

    def let_go(_: Any) -> None:
        lib.devrt_release(held)

    data = ffi.gc(ffi.cast("char *", address), let_go, spec.nbytes)
    bytes_of = memoryview(ffi.buffer(data, spec.nbytes)).toreadonly()
    return np.frombuffer(bytes_of, spec.dtype).reshape(spec.shape)


def to_host(buffer: PjrtBuffer) -> np.ndarray[Any, Any]:
    """Transfer a buffer to the host, row-major whatever its layout on the device."""
    spec, client = buffer._spec, buffer._client
    api = client._api
    order = _order(buffer)
    target = np.empty(spec.size, spec.dtype)
    sizes = ffi.new("int64_t[]", order)
    layout = api.new("PJRT_Buffer_MemoryLayout")
    layout.type = lib.PJRT_Buffer_MemoryLayout_Type_Tiled
    tiled = layout.tiled
    tiled.struct_size = ffi.sizeof("PJRT_Buffer_MemoryLayout_Tiled")
    tiled.minor_to_major, tiled.minor_to_major_size = sizes, len(order)
    buffer._wait("to_host")
    with buffer._pinned("to_host") as pointer:
        args = api.call(
            "PJRT_Buffer_ToHostBuffer",
            src=pointer,
            host_layout=layout,
            dst=ffi.cast("void *", target.__array_interface__["data"][0]),
            dst_size=target.nbytes,
        )
    Event(client, args.event, keeps=(target, sizes, layout)).wait("to_host")
    return _row_major(target, spec.shape, order)


def _order(buffer: PjrtBuffer) -> list[int]:
    """Return the order to ask for: the source's own where it is known, as some plugins give that.

    Tiles are another matter: whoever has them takes them apart.
    """
    default = list(range(len(buffer.shape) - 1, -1, -1))
    if buffer._is_dense:
        return default
    layout = buffer.layout
    return default if layout.tiling() else list(layout.minor_to_major())


def _row_major(
    flat: np.ndarray[Any, Any], shape: tuple[int, ...], order: list[int]
) -> np.ndarray[Any, Any]:
    """Return elements that lie in an order of dimensions, the fastest first, as an array."""
    axes = order[::-1]
    physical = flat.reshape([shape[axis] for axis in axes])
    return np.ascontiguousarray(physical.transpose(np.argsort(axes))).reshape(shape)


def copy(buffer: PjrtBuffer, place: Place) -> PjrtBuffer:
    """Start a copy to another memory, or to the default memory of another device."""
    client = buffer._client
    is_default = place.memory is place.device._default
    with buffer._pinned("copy_to_memory") as pointer:
        try:
            args = client._api.call(
                "PJRT_Buffer_CopyToMemory", buffer=pointer, dst_memory=place.memory._pointer
            )
        except DevrtError:
            if not is_default or place.device is buffer._device:
                raise
            args = client._api.call(
                "PJRT_Buffer_CopyToDevice", buffer=pointer, dst_device=place.device._pointer
            )
        handle = lib.devrt_adopt_copy(client._core, args.dst_buffer, buffer._handle)
    return type(buffer)(client, handle, buffer._spec, place.memory, place.device)
