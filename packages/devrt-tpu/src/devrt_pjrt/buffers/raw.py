"""The bytes of buffers as they lie on a device: read in part, or taken for another type."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers import fetch
from devrt_pjrt.buffers.spec import Spec, check_type, spec_of, type_code
from devrt_pjrt.connection.event import Event
from devrt_pjrt.connection.target import Target
from devrt_pjrt.library.checks import dims_of, number_of

if TYPE_CHECKING:
    from devrt_pjrt.buffers.buffer import PjrtBuffer
    from devrt_pjrt.connection.connection import Connection

__all__ = ["bitcast", "copy_to_host", "uninitialized"]


def copy_to_host(buffer: PjrtBuffer, target: Any, offset: int, size: int | None) -> None:
    """Copy bytes of a buffer; see `PjrtBuffer.copy_raw_to_host`."""
    operation, connection = "copy_raw_to_host", buffer.connection
    view = _writable(target, operation)
    offset = number_of(offset, "offset", operation)
    size = view.nbytes if size is None else number_of(size, "size", operation)
    there = buffer.on_device_size_in_bytes()
    if offset < 0 or size < 0 or offset + size > there or size > view.nbytes:
        msg = (
            f"{operation} failed: {size} bytes from byte {offset} on are not in {buffer!r}, which "
            f"has {there}, or not in the target, which has {view.nbytes}."
        )
        raise InvalidArgumentError(msg, operation=operation)
    buffer.wait(operation)
    if not size:
        return
    memory = ffi.from_buffer(view, require_writable=True)
    kept = buffer.clone()  # from here on another thread may delete the buffer
    with kept.pinned(operation) as pointer:
        args = connection.api.call(
            "PJRT_Buffer_CopyRawToHost",
            buffer=pointer,
            dst=memory,
            offset=offset,
            transfer_size=size,
        )
        copied = Event(connection, args.event, keeps=(memory, kept))
    copied.wait(operation)


def _writable(target: Any, operation: str) -> memoryview:
    try:
        view = memoryview(target).cast("B")
    except TypeError as error:
        msg = f"{operation} failed: {type(target).__name__} is no contiguous memory ({error})."
        raise InvalidTypeError(msg, operation=operation) from error
    if view.readonly:
        msg = f"{operation} failed: the memory of the {type(target).__name__} is read-only."
        raise InvalidArgumentError(msg, operation=operation)
    return view


def bitcast(buffer: PjrtBuffer, dtype: Any, shape: Sequence[int]) -> tuple[int, Spec]:
    """Take a buffer's bytes for other elements; return a handle and what it is of."""
    operation, connection = "bitcast", buffer.connection
    api = connection.api
    spec = spec_of(type_code(api, dtype), dims_of(shape, operation))
    check_type(api, spec.code)
    if spec.nbytes != buffer.nbytes or spec.is_packed or buffer.spec.is_packed:
        msg = (
            f"{operation} failed: {buffer!r} has {buffer.nbytes} bytes, and {spec} would have "
            f"{spec.nbytes}. Name a shape of as many bytes, of elements of whole bytes."
        )
        raise InvalidArgumentError(msg, operation=operation)
    if buffer.given_layout is not None:
        msg = f"{operation} failed: {buffer!r} lies in layout {buffer.given_layout}. Copy it first."
        raise InvalidArgumentError(msg, operation=operation)
    if not api.has("PJRT_Buffer_Bitcast"):
        raise api.missing("PJRT_Buffer_Bitcast")
    source, dims = buffer, ffi.new("int64_t[]", list(spec.shape))
    with ExitStack() as pins:
        pointer = pins.enter_context(buffer.pinned(operation))  # the one pin that is no sharing
        if lib.devrt_is_shared(buffer.handle):
            source = _own_copy(buffer)
            pointer = pins.enter_context(source.pinned(operation))
        args = api.call(
            "PJRT_Buffer_Bitcast",
            buffer=pointer,
            element_type=spec.code,
            dims=dims,
            num_dims=len(spec.shape),
        )
        handle = lib.devrt_adopt_copy(connection.core, args.out_buffer, source.handle)
    source.delete()
    buffer.delete()
    return handle, spec


def _own_copy(buffer: PjrtBuffer) -> PjrtBuffer:
    target = buffer.connection.inventory.target(buffer.memory, "bitcast")
    return fetch.copy(buffer, target)


def uninitialized(
    connection: Connection, shape: Sequence[int], dtype: Any, target: Target
) -> tuple[int, Spec]:
    """Make a buffer of whatever its memory holds; return its handle and what it is of."""
    operation, api = "create_uninitialized_buffer", connection.api
    spec = spec_of(type_code(api, dtype), dims_of(shape, operation))
    check_type(api, spec.code)
    dims = ffi.new("int64_t[]", list(spec.shape))
    with connection.using(operation):
        args = api.call(
            "PJRT_Client_CreateUninitializedBuffer",
            client=connection.pointer,
            shape_dims=dims,
            shape_num_dims=len(spec.shape),
            shape_element_type=spec.code,
            device=target.device_pointer,
            memory=target.memory_pointer,
        )
        handle = lib.devrt_adopt(connection.core, args.buffer)
    return handle, spec
