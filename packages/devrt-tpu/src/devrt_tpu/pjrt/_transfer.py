"""Buffers whose data is sent piece by piece, after they were made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt_tpu.pjrt._buffer import PjrtBuffer
from devrt_tpu.pjrt._event import Event
from devrt_tpu.pjrt._native import ffi, lib
from devrt_tpu.pjrt._spec import spec_of, type_code

if TYPE_CHECKING:
    from devrt_tpu.pjrt._client import PjrtClient
    from devrt_tpu.pjrt._place import Place

__all__ = ["TransferManager"]

_PREFIX = "PJRT_AsyncHostToDeviceTransferManager"


class TransferManager:
    """Some buffers on one memory, and the sending of their data.

    `PjrtClient.create_buffers_for_async_host_to_device` makes one. A buffer can be taken, and
    passed to a program, before its data has come; it is ready when the last piece is there.

    Parameters
    ----------
    client
        The client.
    specs
        Shape and dtype of each buffer.
    place
        Where they go.
    """

    def __init__(
        self, client: PjrtClient, specs: Sequence[tuple[tuple[int, ...], Any]], place: Place
    ) -> None:
        api = client._api
        self._client, self._place = client, place
        self._specs = [
            spec_of(type_code(api, dtype), tuple(int(n) for n in shape)) for shape, dtype in specs
        ]
        self._is_retrieved = [False] * len(self._specs)
        self._is_sent = [False] * len(self._specs)
        dims = [ffi.new("int64_t[]", list(spec.shape)) for spec in self._specs]
        described = ffi.new("PJRT_ShapeSpec[]", len(self._specs))
        for slot, spec, sizes in zip(described, self._specs, dims, strict=True):
            slot.struct_size = ffi.offsetof("PJRT_ShapeSpec", "element_type") + 4
            slot.dims, slot.num_dims, slot.element_type = sizes, len(spec.shape), spec.code
        with client._using("create_buffers_for_async_host_to_device"):
            args = api.call(
                "PJRT_Client_CreateBuffersForAsyncHostToDevice",
                client=client._pointer,
                shape_specs=described,
                num_shape_specs=len(self._specs),
                memory=place.memory._pointer,
            )
        self._pointer: Any = args.transfer_manager

    def __len__(self) -> int:
        return len(self._specs)

    def buffer_size(self, index: int) -> int:
        """Return the bytes that a buffer takes on the device."""
        args = self._call("BufferSize", self._check(index))
        return int(args.buffer_size)

    def retrieve_buffer(self, index: int) -> PjrtBuffer:
        """Return a buffer, once; its data may not have come yet."""
        if self._is_retrieved[self._check(index)]:
            msg = f"buffer {index} of this transfer was retrieved already. Keep it."
            raise InvalidArgumentError(msg, operation="retrieve_buffer")
        args = self._call("RetrieveBuffer", index)
        self._is_retrieved[index] = True
        handle = lib.devrt_adopt(self._client._core, args.buffer_out)
        place = self._place
        return PjrtBuffer(self._client, handle, self._specs[index], place.memory, place.device)

    def transfer_data(
        self, index: int, data: Any, offset: int = 0, *, is_last: bool = True
    ) -> Event:
        """Start to send a piece of a buffer's data.

        Parameters
        ----------
        index
            The buffer.
        data
            Contiguous bytes or array; kept alive until they are sent.
        offset
            Where they go, in bytes.
        is_last
            Whether nothing more of this buffer comes; it is ready then.

        Returns
        -------
        Event
            Ready when the data is not needed any more.
        """
        spec = self._specs[self._check(index)]
        source = np.ascontiguousarray(np.asarray(data)) if not isinstance(data, bytes) else data
        size = len(source) if isinstance(source, bytes) else source.nbytes
        if self._is_sent[index]:
            msg = f"the last piece of buffer {index} was sent already."
            raise InvalidArgumentError(msg, operation="transfer_data")
        if offset < 0 or offset + size > spec.nbytes:
            msg = (
                f"{size} bytes at offset {offset} do not fit buffer {index}, {spec} of "
                f"{spec.nbytes} bytes."
            )
            raise InvalidArgumentError(msg, operation="transfer_data")
        address = (
            ffi.from_buffer(source)
            if isinstance(source, bytes)
            else ffi.cast("void *", source.__array_interface__["data"][0])
        )
        args = self._call(
            "TransferData",
            index,
            data=address,
            offset=offset,
            transfer_size=size,
            is_last_transfer=is_last,
        )
        self._is_sent[index] = is_last
        return Event(self._client, args.done_with_h2d_transfer, keeps=(source, address))

    def set_buffer_error(self, index: int, code: int, message: str) -> None:
        """Fail a buffer: whoever waits for it gets this error."""
        text = message.encode()
        held = ffi.new("char[]", text)
        self._call(
            "SetBufferError",
            self._check(index),
            error_code=int(code),
            error_message=held,
            error_message_size=len(text),
        )
        self._is_sent[index] = True

    def close(self) -> None:
        """Give the manager back; buffers that were retrieved stay. Idempotent."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None and lib.devrt_core_enter(self._client._core) == lib.DEVRT_OK:
            try:
                self._client._api.call(f"{_PREFIX}_Destroy", transfer_manager=pointer)
            finally:
                lib.devrt_core_leave(self._client._core)

    def __enter__(self) -> TransferManager:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self.close()

    def _check(self, index: int) -> int:
        if self._pointer is None:
            msg = "this transfer was closed."
            raise InvalidArgumentError(msg, operation="transfer")
        if not 0 <= index < len(self._specs):
            msg = f"there is no buffer {index}: this transfer has {len(self._specs)}."
            raise InvalidArgumentError(msg, operation="transfer")
        return index

    def _call(self, function: str, index: int, **fields: Any) -> Any:
        with self._client._using(function):
            return self._client._api.call(
                f"{_PREFIX}_{function}",
                transfer_manager=self._pointer,
                buffer_index=index,
                **fields,
            )
