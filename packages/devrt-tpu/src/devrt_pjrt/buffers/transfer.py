"""Buffers whose data is sent piece by piece, after they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError, StatusCode
from devrt.layout import row_major
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers.buffer import PjrtBuffer
from devrt_pjrt.buffers.laid_out import LaidOutBuffer
from devrt_pjrt.buffers.layout import checked, pointer_to
from devrt_pjrt.buffers.spec import Spec, spec_of, type_code
from devrt_pjrt.connection.event import Event
from devrt_pjrt.library.checks import dims_of, encoded, listed, number_of
from devrt_pjrt.library.handle import Handle

if TYPE_CHECKING:
    from devrt.layout import Layout
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.target import Target
    from devrt_pjrt.library.api import Api

__all__ = ["TransferManager"]

_PREFIX = "PJRT_AsyncHostToDeviceTransferManager"
_MAKE = "create_buffers_for_async_host_to_device"
_RAW = ("uint8", "int8")


class TransferManager(Handle):
    """Some buffers on one memory, and the sending of their data.

    `PjrtClient.create_buffers_for_async_host_to_device` makes one. A buffer can be taken, and
    passed to a program, before its data has come; it is ready when the last piece is there. One
    whose data never comes fails when the manager, or the client, is closed.

    Parameters
    ----------
    connection
        Of the client.
    specs
        Shape and dtype of each buffer.
    target
        Where they go.
    layouts
        How each lies there; None for as it would anyway.
    """

    def __init__(
        self,
        connection: Connection,
        specs: Sequence[tuple[tuple[int, ...], Any]],
        target: Target,
        layouts: Sequence[object] | None = None,
    ) -> None:
        self._pointer: Any = None
        api = connection.api
        self._connection, self._target = connection, target
        self._specs = _specs_of(api, specs)
        self._layouts = _layouts_of(connection, self._specs, layouts)
        self._is_retrieved = [False] * len(self._specs)
        self._pieces = [_Pieces(spec.device_bytes) for spec in self._specs]
        dims = [ffi.new("int64_t[]", list(spec.shape)) for spec in self._specs]
        described = ffi.new("PJRT_ShapeSpec[]", len(self._specs))
        for slot, spec, sizes in zip(described, self._specs, dims, strict=True):
            slot.struct_size = ffi.offsetof("PJRT_ShapeSpec", "element_type") + 4
            slot.dims, slot.num_dims, slot.element_type = sizes, len(spec.shape), spec.code
        given, kept = _given(connection, self._layouts)
        with connection.using(_MAKE):
            args = api.call(
                "PJRT_Client_CreateBuffersForAsyncHostToDevice",
                client=connection.pointer,
                shape_specs=described,
                num_shape_specs=len(self._specs),
                device_layouts=given,
                num_device_layouts=len(kept),
                memory=target.memory.pointer,
            )
            self._pointer = args.transfer_manager
            connection.managers.add(self)

    def __len__(self) -> int:
        return len(self._specs)

    def buffer_size(self, index: int) -> int:
        """Return the bytes that a buffer takes on the device."""
        args = self._call("BufferSize", self._check(index))
        return int(args.buffer_size)

    def retrieve_buffer(self, index: int) -> PjrtBuffer:
        """Return a buffer, once; its data may not have come yet."""
        index = self._check(index)
        if self._is_retrieved[index]:
            msg = f"buffer {index} of this transfer was retrieved already. Keep it."
            raise InvalidArgumentError(msg, operation="retrieve_buffer")
        args = self._call("RetrieveBuffer", index)
        self._is_retrieved[index] = True
        handle = lib.devrt_adopt_promised(self._connection.core, args.buffer_out)
        connection, spec, target = self._connection, self._specs[index], self._target
        layout = self._layouts[index]
        if layout is None:
            return PjrtBuffer(connection, handle, spec, target.memory, target.device)
        return LaidOutBuffer(connection, handle, spec, target.memory, target.device, layout)

    def transfer_data(
        self, index: int, data: Any, offset: int = 0, *, is_last: bool = True
    ) -> Event:
        """Start to send a piece of a buffer's data.

        Parameters
        ----------
        index
            The buffer.
        data
            Contiguous bytes, or an array of the buffer's dtype; kept alive until they are sent.
            Elements below a byte are packed here, the first in the lowest bits; bytes must be.
            An array of the buffer's whole shape is put in the order of its layout here; bytes and
            parts must be in that order.
        offset
            Where they go, in bytes.
        is_last
            Whether nothing more of this buffer comes; it is ready then.

        Returns
        -------
        Event
            Ready when the data is not needed any more.

        Raises
        ------
        InvalidArgumentError
            If the piece does not fit; or is the last one, and a part of the buffer was not sent.
        InvalidTypeError
            If the data is neither bytes nor of the buffer's dtype.
        """
        index = self._check(index)
        offset = number_of(offset, "offset", "transfer_data")
        spec, pieces = self._specs[index], self._pieces[index]
        source = _bytes_of(spec, data, self._layouts[index])
        problem = pieces.problem(offset, source.nbytes, is_last=bool(is_last))
        if problem:
            msg = f"transfer_data failed: buffer {index}, {spec}, {problem}."
            raise InvalidArgumentError(msg, operation="transfer_data")
        pieces.add(offset, source.nbytes, is_last=bool(is_last))  # before another thread's last one
        try:
            args = self._call(
                "TransferData",
                index,
                data=ffi.cast("void *", source.__array_interface__["data"][0]),
                offset=offset,
                transfer_size=source.nbytes,
                is_last_transfer=bool(is_last),
            )
        except DevrtError:
            pieces.take_back(offset, source.nbytes)
            raise
        return Event(self._connection, args.done_with_h2d_transfer, keeps=source)

    def set_buffer_error(self, index: int, code: int, message: str) -> None:
        """Fail a buffer: its waiters get this error.

        Raises
        ------
        InvalidArgumentError
            If the code is that of no error, or the buffer is complete or has failed.
        """
        index = self._check(index)
        number = number_of(code, "code", "set_buffer_error")
        if not number or number not in StatusCode._value2member_map_:
            msg = f"set_buffer_error failed: {code!r} is the code of no error (StatusCode, from 1)."
            raise InvalidArgumentError(msg, operation="set_buffer_error")
        if self._pieces[index].is_done:
            msg = f"set_buffer_error failed: buffer {index} was completed, or failed, already."
            raise InvalidArgumentError(msg, operation="set_buffer_error")
        text = encoded(message, "message", "set_buffer_error")
        held = ffi.new("char[]", text)
        self._call(
            "SetBufferError",
            index,
            error_code=number,
            error_message=held,
            error_message_size=len(text),
        )
        self._pieces[index].is_done = True

    def owes_data(self) -> bool:
        """Return whether some of the buffers are neither complete nor failed."""
        return self._pointer is not None and not all(pieces.is_done for pieces in self._pieces)

    def close(self) -> None:
        """Give the manager back; buffers that were retrieved stay. Idempotent."""
        if self._pointer is None or lib.devrt_core_enter(self._connection.core) != lib.DEVRT_OK:
            return
        try:
            self.destroy()
        finally:
            lib.devrt_core_leave(self._connection.core)

    def destroy(self) -> None:
        """Give the manager back; for the client that closes, and for `close`."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._connection.api.call(f"{_PREFIX}_Destroy", transfer_manager=pointer)

    def __enter__(self) -> TransferManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self.close()

    def _check(self, index: Any) -> int:
        if self._pointer is None:
            if self._connection.is_closed:
                raise self._connection.error(lib.DEVRT_CLOSED, "transfer", None)
            msg = "this transfer was closed."
            raise InvalidArgumentError(msg, operation="transfer")
        number = number_of(index, "index", "transfer")
        if not 0 <= number < len(self._specs):
            msg = f"there is no buffer {index}: this transfer has {len(self._specs)}."
            raise InvalidArgumentError(msg, operation="transfer")
        return number

    def _call(self, function: str, index: int, **fields: Any) -> Any:
        with self._connection.using(function):
            return self._connection.api.call(
                f"{_PREFIX}_{function}",
                transfer_manager=self._pointer,
                buffer_index=index,
                **fields,
            )


class _Pieces:
    """Which bytes of a buffer were sent: memory that nobody wrote must not count as data."""

    def __init__(self, size: int) -> None:
        self.is_done = False
        self._size = size
        self._sent: list[tuple[int, int]] = []

    def problem(self, start: int, count: int, *, is_last: bool) -> str:
        """Return why a piece cannot be sent, in a clause; empty if it can."""
        if self.is_done:
            return "has got its last piece, or an error, already"
        if start < 0 or start + count > self._size:
            return f"has {self._size} bytes, and {count} at offset {start} do not fit"
        gap = _gap_in([*self._sent, (start, start + count)], self._size) if is_last else None
        if gap is None:
            return ""
        return f"would be complete without bytes {gap[0]} to {gap[1]}, which were never sent"

    def add(self, start: int, count: int, *, is_last: bool) -> None:
        """Note a piece that is sent."""
        self.is_done = is_last
        self._sent.append((start, start + count))

    def take_back(self, start: int, count: int) -> None:
        """Forget a piece that was refused."""
        self.is_done = False
        self._sent.remove((start, start + count))


def _gap_in(pieces: list[tuple[int, int]], size: int) -> tuple[int, int] | None:
    reached = 0
    for start, end in sorted(pieces):
        if start > reached:
            return reached, start
        reached = max(reached, end)
    return (reached, size) if reached < size else None


def _specs_of(api: Api, specs: Any) -> list[Spec]:
    try:
        pairs = [(shape, dtype) for shape, dtype in specs]
    except (TypeError, ValueError) as error:
        msg = f"{_MAKE} failed: specs are pairs of a shape and a dtype, not {specs!r:.60}."
        raise InvalidTypeError(msg, operation=_MAKE) from error
    return [spec_of(type_code(api, dtype), dims_of(shape, _MAKE)) for shape, dtype in pairs]


def _layouts_of(
    connection: Connection, specs: Sequence[Spec], layouts: Sequence[object] | None
) -> list[Layout | None]:
    """Return the layouts that were requested; None for each that buffers have anyway."""
    given = [None] * len(specs) if layouts is None else listed(layouts, _MAKE, "layouts")
    if len(given) != len(specs):
        msg = f"{_MAKE} failed: there are {len(specs)} buffers, and {len(given)} layouts for them."
        raise InvalidArgumentError(msg, operation=_MAKE)
    is_host = not connection.traits.takes_layouts
    found = [
        None if layout is None else checked(layout, spec, _MAKE, is_host=is_host)
        for layout, spec in zip(given, specs, strict=True)
    ]
    return [
        None if is_host and layout == row_major(len(spec.shape)) else layout
        for layout, spec in zip(found, specs, strict=True)
    ]


def _given(connection: Connection, layouts: Sequence[Layout | None]) -> tuple[Any, list[Any]]:
    """Return what the plugin is given of layouts, and what must live as long."""
    if not connection.traits.takes_layouts or not any(layouts):
        return ffi.NULL, []
    kept = [(ffi.NULL, ()) if one is None else pointer_to(connection.api, one) for one in layouts]
    return ffi.new("PJRT_Buffer_MemoryLayout *[]", [pointer for pointer, _ in kept]), kept


def _bytes_of(spec: Spec, data: Any, layout: Layout | None) -> np.ndarray[Any, Any]:
    """Return data as the plugin takes it: contiguous, elements below a byte packed."""
    try:
        array = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else np.asarray(data)
    except (TypeError, ValueError, BufferError) as error:
        msg = f"transfer_data failed: a value of type {type(data).__name__} is no array: {error}."
        raise InvalidTypeError(msg, operation="transfer_data") from error
    if array.dtype != spec.dtype and array.dtype.name not in _RAW:
        msg = (
            f"transfer_data failed: data for {spec} must be bytes, or an array of "
            f"{spec.dtype.name}, and is of {array.dtype}."
        )
        raise InvalidTypeError(msg, operation="transfer_data")
    if layout is not None and array.dtype == spec.dtype and array.shape == spec.shape:
        array = array.transpose(layout.minor_to_major()[::-1])
    dense = np.ascontiguousarray(array)
    return _packed(dense, spec) if spec.is_packed and array.dtype == spec.dtype else dense


def _packed(array: np.ndarray[Any, Any], spec: Spec) -> np.ndarray[Any, Any]:
    """Return elements below a byte side by side, the first in the lowest bits."""
    per_byte = 8 // spec.bits
    raw = array.reshape(-1).view(np.uint8) & ((1 << spec.bits) - 1)
    rows = np.zeros(-(-raw.size // per_byte) * per_byte, np.uint8)
    rows[: raw.size] = raw
    shifts = np.arange(per_byte, dtype=np.uint8) * np.uint8(spec.bits)
    packed: np.ndarray[Any, Any] = np.bitwise_or.reduce(
        rows.reshape(-1, per_byte) << shifts, axis=1
    )
    return packed
