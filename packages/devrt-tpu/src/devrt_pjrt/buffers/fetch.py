"""Reading buffers: through the pointer where the host sees the memory, else by a transfer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.contract import read_only
from devrt.errors import DevrtError
from devrt.layout import Layout
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers import buffer as _buffer
from devrt_pjrt.buffers.layout import pointer_to, told_layout
from devrt_pjrt.library.event import Event

if TYPE_CHECKING:
    from devrt_pjrt.buffers.buffer import PjrtBuffer
    from devrt_pjrt.client.place import Place

__all__ = ["copy", "elements", "is_host_visible", "to_host", "to_numpy", "view"]

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
    """Wait for a buffer and return its data as an array that is never writable.

    It is row-major, but for a view of a buffer that lies in another order.
    """
    spec, memory = buffer._spec, buffer._memory
    is_visible = memory._is_host_visible
    if is_visible is None:
        is_visible = is_host_visible(buffer)
    if not is_visible or spec.is_packed or not (buffer._is_dense or spec.size):
        return read_only(to_host(buffer))
    if not buffer._is_dense:
        return _in_order(view(buffer), spec.shape, _order(buffer))
    if spec.nbytes > _COPIED:
        return view(buffer).reshape(spec.shape)
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


def is_host_visible(buffer: PjrtBuffer) -> bool:
    """Return whether the host can read a buffer's memory through a pointer; found out once."""
    memory = buffer._memory
    if memory._is_host_visible is None:
        with buffer._pinned("IsOnCpu") as pointer:
            args = buffer._client._api.call("PJRT_Buffer_IsOnCpu", buffer=pointer)
        memory._is_host_visible = bool(args.is_on_cpu)
    return memory._is_host_visible


def view(buffer: PjrtBuffer) -> np.ndarray[Any, Any]:
    """Return the elements as they lie, without a copy, in one dimension.

    The view holds the memory, also when the client is closed.
    """
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
    return np.frombuffer(bytes_of, spec.dtype)


def to_host(buffer: PjrtBuffer) -> np.ndarray[Any, Any]:
    """Transfer a buffer to the host, row-major whatever its layout on the device."""
    order = _order(buffer)
    found = _in_order(elements(buffer, order), buffer._spec.shape, order)
    return np.ascontiguousarray(found).reshape(buffer._spec.shape)


def elements(buffer: PjrtBuffer, order: Sequence[int]) -> np.ndarray[Any, Any]:
    """Transfer a buffer's elements to the host in an order of its dimensions, fastest first."""
    spec, client = buffer._spec, buffer._client
    api = client._api
    target = np.empty(spec.size, spec.dtype)
    layout, kept = pointer_to(api, Layout(order))
    buffer._wait("to_host")
    with buffer._pinned("to_host") as pointer:
        args = api.call(
            "PJRT_Buffer_ToHostBuffer",
            src=pointer,
            host_layout=layout,
            dst=ffi.cast("void *", target.__array_interface__["data"][0]),
            dst_size=target.nbytes,
        )
    Event(client, args.event, keeps=(target, layout, kept)).wait("to_host")
    return target


def _order(buffer: PjrtBuffer) -> Sequence[int]:
    """Return the order to ask for: the source's own where it is known, as some plugins give that.

    Tiles are another matter: whoever has them takes them apart.
    """
    layout = buffer._layout if isinstance(buffer, _buffer.LaidOutBuffer) else None
    if layout is None or layout.tiling():
        return range(len(buffer.shape) - 1, -1, -1)
    return layout.minor_to_major()


def _in_order(
    flat: np.ndarray[Any, Any], shape: tuple[int, ...], order: Sequence[int]
) -> np.ndarray[Any, Any]:
    """Return elements that lie in an order of dimensions, the fastest first, as a view."""
    axes = order[::-1]
    return flat.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes))


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
    made = buffer._like(handle, place.memory, place.device)
    if isinstance(made, _buffer.LaidOutBuffer) and client.plugin_platform != "cpu":
        # XLA's for the host copies the bytes as they lie; others may lay them out anew.
        made._layout = told_layout(made)
    return made
