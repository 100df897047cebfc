"""Reading buffers: through the pointer where the host sees the memory, else by a transfer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.contract import read_only
from devrt.errors import DevrtError
from devrt.layout import Layout
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers.layout import pointer_to, reported_layout
from devrt_pjrt.connection.event import Event

if TYPE_CHECKING:
    from devrt_pjrt.buffers.buffer import PjrtBuffer
    from devrt_pjrt.buffers.spec import Spec
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.device import PjrtMemory
    from devrt_pjrt.connection.target import Target

__all__ = ["copy", "elements", "is_host_visible", "start", "to_host", "to_numpy", "view"]

_COPIED = 1 << 16
"""Up to this many bytes a copy is cheaper than a view, which must be released again."""

_NEW_RESULT = ffi.typeof("devrt_result *")
_read = lib.devrt_read
_frombuffer = np.frombuffer


def _new_staging() -> tuple[Any, Any]:
    """Return memory for a copy, and a view of it."""
    memory = ffi.new("char[]", _COPIED)
    return memory, ffi.buffer(memory)


def to_numpy(
    buffer: PjrtBuffer,
    handle: int,
    spec: Spec,
    memory: PjrtMemory,
    connection: Connection,
    layout: Layout | None,
) -> np.ndarray[Any, Any]:
    """Wait for a buffer and return its data as an array that is never writable.

    It is row-major, but for a view of a buffer that lies in another order. The buffer gives its
    members along, as its properties take longer.
    """
    is_visible = memory.host_visible
    if is_visible is None:
        is_visible = is_host_visible(buffer)
    if not is_visible or spec.is_packed or not (layout is None or spec.size):
        return read_only(to_host(buffer))
    if layout is not None:
        return _in_order(view(buffer), spec.shape, _order(buffer))
    if spec.nbytes > _COPIED:
        return view(buffer).reshape(spec.shape)
    spare = connection.results
    result = spare.pop() if spare else ffi.new(_NEW_RESULT)
    pool = connection.staging
    staging = pool.pop() if pool else _new_staging()
    while True:
        status = _read(connection.core, handle, staging[0], spec.nbytes, result)
        if status == 0:
            spare.append(result)
            break
        if status != lib.DEVRT_WAITING:
            buffer.fail(status, "__array__", result)
        buffer.wait("__array__")
    data = staging[1][: spec.nbytes]  # bytes: an array of them can never be made writable
    pool.append(staging)
    flat = _frombuffer(data, spec.dtype)
    return flat if len(spec.shape) == 1 else flat.reshape(spec.shape)


def is_host_visible(buffer: PjrtBuffer) -> bool:
    """Return whether the host can read a buffer's memory through a pointer; found out once."""
    memory = buffer.memory
    if memory.host_visible is None:
        with buffer.pinned("__array__") as pointer:
            args = buffer.connection.api.call("PJRT_Buffer_IsOnCpu", buffer=pointer)
        memory.host_visible = bool(args.is_on_cpu)
    return memory.host_visible


def view(buffer: PjrtBuffer) -> np.ndarray[Any, Any]:
    """Return the elements as they lie, without a copy, in one dimension.

    The view holds the memory, also when the client is closed.
    """
    spec = buffer.spec
    buffer.wait("__array__")
    with buffer.pinned("__array__") as pointer:
        api = buffer.connection.api
        address = int(api.call("PJRT_Buffer_UnsafePointer", buffer=pointer).buffer_pointer)
        held = lib.devrt_hold(buffer.handle)

    def release(_: Any) -> None:
        lib.devrt_release(held)

    data = ffi.gc(ffi.cast("char *", address), release, spec.nbytes)
    bytes_of = memoryview(ffi.buffer(data, spec.nbytes)).toreadonly()
    return np.frombuffer(bytes_of, spec.dtype)


def to_host(buffer: PjrtBuffer) -> np.ndarray[Any, Any]:
    """Transfer a buffer to the host, row-major whatever its layout on the device."""
    order, started = _order(buffer), _started(buffer)
    flat = elements(buffer, order) if started is None else started
    found = _in_order(flat, buffer.spec.shape, order)
    return np.ascontiguousarray(found).reshape(buffer.spec.shape)


def elements(buffer: PjrtBuffer, order: Sequence[int]) -> np.ndarray[Any, Any]:
    """Transfer a buffer's elements to the host in an order of its dimensions, fastest first."""
    buffer.wait("to_host")
    target, arrived = _transfer(buffer, order)
    arrived.wait("to_host")
    return target


def _transfer(buffer: PjrtBuffer, order: Sequence[int]) -> tuple[np.ndarray[Any, Any], Event]:
    """Start a transfer to the host; return its target, and when that is filled."""
    spec, connection = buffer.spec, buffer.connection
    api = connection.api
    target = np.empty(spec.size, spec.dtype)
    layout, kept = pointer_to(api, Layout(order))
    with buffer.pinned("to_host") as pointer:
        args = api.call(
            "PJRT_Buffer_ToHostBuffer",
            src=pointer,
            host_layout=layout,
            dst=ffi.cast("void *", target.__array_interface__["data"][0]),
            dst_size=target.nbytes,
        )
    return target, Event(connection, args.event, keeps=(target, layout, kept))


def start(buffer: PjrtBuffer) -> tuple[np.ndarray[Any, Any], Event]:
    """Start the transfer of a buffer that the host cannot see, for `to_host` to wait for."""
    return _transfer(buffer, _order(buffer))


def _started(buffer: PjrtBuffer) -> np.ndarray[Any, Any] | None:
    """Wait for the transfer that `start` began and return its target; None if there was none."""
    if buffer.fetched is None:
        return None
    target, arrived = buffer.fetched
    with buffer.pinned("to_host"):  # not of one that was deleted since
        arrived.wait("to_host")
    return target


def _order(buffer: PjrtBuffer) -> Sequence[int]:
    """Return the order to ask for: the source's own where it is known, as some plugins give that.

    Tiles are another matter: their reader takes them apart.
    """
    layout = buffer.given_layout
    if layout is None or layout.tiling():
        return range(len(buffer.shape) - 1, -1, -1)
    return layout.minor_to_major()


def _in_order(
    flat: np.ndarray[Any, Any], shape: tuple[int, ...], order: Sequence[int]
) -> np.ndarray[Any, Any]:
    """Return elements that lie in an order of dimensions, the fastest first, as a view."""
    axes = order[::-1]
    return flat.reshape([shape[axis] for axis in axes]).transpose(np.argsort(axes))


def copy(buffer: PjrtBuffer, target: Target) -> PjrtBuffer:
    """Start a copy to another memory, or to the default memory of another device."""
    connection = buffer.connection
    is_default = target.memory is target.device.default_memory()
    with buffer.pinned("copy_to_memory") as pointer:
        try:
            args = connection.api.call(
                "PJRT_Buffer_CopyToMemory", buffer=pointer, dst_memory=target.memory.pointer
            )
        except DevrtError:
            if not is_default or target.device is buffer.device:
                raise
            args = connection.api.call(
                "PJRT_Buffer_CopyToDevice", buffer=pointer, dst_device=target.device.pointer
            )
        handle = lib.devrt_adopt_copy(connection.core, args.dst_buffer, buffer.handle)
    made = buffer.like(handle, target.memory, target.device)
    if made.given_layout is not None and connection.traits.takes_layouts:
        # It may have been laid out anew; the others copy the bytes as they lie.
        made.lies(reported_layout(made))
    return made
