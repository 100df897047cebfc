"""Buffers of a PJRT client."""

from __future__ import annotations

import time
import weakref
from collections.abc import Sequence
from sys import getrefcount
from typing import TYPE_CHECKING, Any, NoReturn

from devrt.contract import Buffer, Client, Memory
from devrt.errors import DeadlineExceededError, DeletedError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.buffers import fetch
from devrt_pjrt.buffers.pinned import Pinned
from devrt_pjrt.buffers.sites import NOTED_BYTES, note_site, traceback_of
from devrt_pjrt.library.apart import note_interrupt, watch_interrupts
from devrt_pjrt.library.checks import seconds_of
from devrt_pjrt.library.handle import Handle

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract import Traceback
    from devrt.layout import Layout
    from devrt_pjrt.buffers.spec import Spec
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.device import PjrtDevice, PjrtMemory
    from devrt_pjrt.connection.event import Event

__all__ = ["PjrtBuffer", "handles_of"]

_SLICE = 100
"""Milliseconds between two looks at signals and at the client while something is waited for."""

_release = lib.devrt_release
_NEW_RESULT = ffi.typeof("devrt_result *")


class _Dying:
    """Tells how many references an object has in its `__del__` when nobody else has one."""

    references = 0

    def __del__(self) -> None:
        _Dying.references = getrefcount(self)


_Dying()
_ALONE = _Dying.references


class PjrtBuffer(Handle, Buffer):
    """One allocation on one memory of a PJRT client, made by the client's methods."""

    __slots__ = ("_connection", "_device", "_fetched", "_handle", "_memory", "_spec")

    _given_layout: Layout | None = None

    def __init__(
        self,
        connection: Connection,
        handle: int,
        spec: Spec,
        memory: PjrtMemory,
        device: PjrtDevice,
    ) -> None:
        self._connection = connection
        self._handle = handle
        self._spec = spec
        self._memory = memory
        self._device = device
        connection.live[handle] = note_site() if spec.nbytes >= NOTED_BYTES else None

    def __del__(self) -> None:
        connection, handle = self._connection, self._handle
        if connection.is_searched and getrefcount(self) > _ALONE:
            return  # a search of another thread has just found it; released with the client
        self._handle = 0  # the next buffer may have its number, and a search must not mix them up
        # The handle is released where the entry is taken out: here, or when the client is closed.
        if connection.live.pop(handle, 0) != 0:
            _release(handle)
            if connection.kept:
                connection.drain()

    @property
    def connection(self) -> Connection:
        """The client's."""
        return self._connection

    @property
    def given_layout(self) -> Layout | None:
        """How its elements lie, where that is not as the client puts them by default."""
        return self._given_layout

    def lies(self, layout: Layout) -> None:
        """Note in which layout the plugin has put it."""
        self._given_layout = layout

    @property
    def handle(self) -> int:
        """The native half's name for it."""
        return self._handle

    @property
    def spec(self) -> Spec:
        """Dtype and shape."""
        return self._spec

    @property
    def device(self) -> PjrtDevice:
        return self._device

    @property
    def memory(self) -> PjrtMemory:
        return self._memory

    @property
    def shape(self) -> tuple[int, ...]:
        return self._spec.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._spec.dtype

    @property
    def ndim(self) -> int:
        return len(self._spec.shape)

    @property
    def size(self) -> int:
        return self._spec.size

    @property
    def nbytes(self) -> int:
        return self._spec.nbytes

    @property
    def client(self) -> Client:
        """The client that owns the buffer."""
        return self._connection.client

    @property
    def traceback(self) -> Traceback | None:
        """Where in the program the buffer was made; None for one below 1 MiB."""
        return traceback_of(self._connection.live.get(self._handle))

    def is_ready(self) -> bool:
        """Return whether the data has arrived; a failed buffer is ready too."""
        result = ffi.new(_NEW_RESULT)
        status = lib.devrt_wait(self._connection.core, self._handle, 0, result)
        if status == lib.DEVRT_FAILED and not result.kept:
            self._connection.api.take(result.error, "is_ready")
        elif status not in (lib.DEVRT_OK, lib.DEVRT_WAITING, lib.DEVRT_FAILED):
            self.fail(status, "is_ready", result)
        return bool(status != lib.DEVRT_WAITING)

    def block_until_ready(self, timeout: float | None = None) -> PjrtBuffer:
        """Wait for the data, with the GIL released; return the buffer or raise its error.

        Parameters
        ----------
        timeout
            Seconds; None waits for as long as it takes. An interrupt ends the wait.

        Raises
        ------
        DeadlineExceededError
            If the data has not come in time; the buffer goes on waiting for it.
        """
        self.wait("block_until_ready", timeout)
        return self

    def wait(self, operation: str, timeout: float | None = None) -> None:
        """Wait as `block_until_ready`, for an operation that errors name."""
        try:
            self._wait_in_slices(operation, timeout)
        except KeyboardInterrupt:
            waited = weakref.ref(self)
            note_interrupt(lambda: (b := waited()) is not None and not b.is_settled(0))
            raise

    def _wait_in_slices(self, operation: str, timeout: float | None) -> None:
        connection = self._connection
        result = ffi.new(_NEW_RESULT)
        timeout = seconds_of(timeout, operation)
        deadline = None if timeout is None else time.monotonic() + timeout
        is_watched = False
        while True:
            left = _SLICE
            if deadline is not None:
                left = max(0, min(_SLICE, int((deadline - time.monotonic()) * 1000)))
            status = lib.devrt_wait(connection.core, self._handle, left, result)
            if status == lib.DEVRT_OK:
                return
            if status != lib.DEVRT_WAITING:
                self.fail(status, operation, result)
            connection.refuse_if_stuck(operation)
            if not is_watched:
                watch_interrupts()
                is_watched = True
            if deadline is not None and time.monotonic() >= deadline:
                msg = f"{self!r} was not ready within {timeout:g} s. Wait longer, or delete it."
                raise DeadlineExceededError(msg, operation=operation, device=str(self._device))

    def is_settled(self, timeout_ms: int) -> bool:
        """Wait for at most a while; return whether the data or an error has come."""
        result = ffi.new(_NEW_RESULT)
        status = lib.devrt_wait(self._connection.core, self._handle, timeout_ms, result)
        if status == lib.DEVRT_FAILED and not result.kept:
            self._connection.api.take(result.error, "wait")
        return bool(status != lib.DEVRT_WAITING)

    def fail(self, status: int, operation: str, result: Any) -> NoReturn:
        """Raise what a status of the native half means for this buffer."""
        connection = self._connection
        if status == lib.DEVRT_DELETED:
            msg = f"{operation} failed: {self.describe()} was deleted or donated. Put it again."
            raise DeletedError(msg, operation=operation, device=str(self._device))
        if status == lib.DEVRT_FAILED and result.kept:
            error = connection.api.describe(result.error, operation, device=str(self._device))
            raise connection.explain(error)
        raise connection.error(status, operation, result)

    def is_deleted(self) -> bool:
        """Return whether the buffer was deleted or donated, or its client closed."""
        connection = self._connection
        if self._handle not in connection.live:
            return True
        if lib.devrt_core_enter(connection.core) != lib.DEVRT_OK:
            return connection.is_closed
        try:
            return self._handle not in connection.live or bool(lib.devrt_is_deleted(self._handle))
        finally:
            lib.devrt_core_leave(connection.core)

    def delete(self) -> None:
        connection = self._connection
        if lib.devrt_core_enter(connection.core) == lib.DEVRT_OK:
            try:
                if self._handle in connection.live:
                    lib.devrt_delete(self._handle)
            finally:
                lib.devrt_core_leave(connection.core)
            if connection.kept:
                connection.drain()

    def clone(self) -> PjrtBuffer:
        with self.pinned("clone"):
            handle = lib.devrt_clone(self._handle)
        return self.like(handle, self._memory, self._device)

    def like(self, handle: int, memory: PjrtMemory, device: PjrtDevice) -> PjrtBuffer:
        """Return a buffer of the same dtype, shape and layout on another handle."""
        return PjrtBuffer(self._connection, handle, self._spec, memory, device)

    def copy_to_memory(self, memory: Memory, *, may_alias: bool = True) -> PjrtBuffer:
        target = self._connection.inventory.target(memory, "copy_to_memory")
        if may_alias and target.memory is self._memory and target.device is self._device:
            return self.clone()
        return fetch.copy(self, target)

    def on_device_size_in_bytes(self) -> int:
        with self.pinned("on_device_size_in_bytes") as buffer:
            args = self._connection.api.call("PJRT_Buffer_OnDeviceSizeInBytes", buffer=buffer)
            return int(args.on_device_size_in_bytes)

    def unsafe_buffer_pointer(self) -> int:
        """Wait for the data and return its address, valid only while the buffer is alive."""
        self.wait("unsafe_buffer_pointer")
        with self.pinned("unsafe_buffer_pointer") as buffer:
            api = self._connection.api
            return int(api.call("PJRT_Buffer_UnsafePointer", buffer=buffer).buffer_pointer)

    @property
    def layout(self) -> Layout:
        from devrt_pjrt.buffers.layout import reported_layout

        return reported_layout(self)

    def copy_to_host_async(self) -> None:
        """Start the transfer that a later `__array__` waits for, where the host needs one."""
        if not fetch.is_host_visible(self) and self.fetched is None:
            self._fetched = fetch.start(self)

    @property
    def fetched(self) -> tuple[np.ndarray[Any, Any], Event] | None:
        """What `copy_to_host_async` has started: the target, and when it is filled."""
        return getattr(self, "_fetched", None)  # a slot that is empty until then

    def copy_raw_to_host(self, target: Any, *, offset: int = 0, size: int | None = None) -> None:
        """Wait for the data and copy bytes as they lie on the device, whatever the layout.

        Parameters
        ----------
        target
            Writable memory, such as a NumPy array or a bytearray.
        offset
            The first byte.
        size
            How many; as many as ``target`` holds when omitted.

        Raises
        ------
        InvalidArgumentError
            If they are not in the buffer, or do not fit into ``target``.
        """
        from devrt_pjrt.buffers import raw

        raw.copy_to_host(self, target, offset, size)

    def bitcast(self, dtype: Any, shape: Sequence[int] | None = None) -> PjrtBuffer:
        """Return the same bytes as elements of another type or shape; this buffer is taken over.

        Nothing is copied, unless a clone, a view or a call shares the memory.

        Raises
        ------
        InvalidArgumentError
            If the sizes differ in bytes.
        UnimplementedError
            If the plugin has no function for it.
        """
        from devrt_pjrt.buffers import raw

        handle, spec = raw.bitcast(self, dtype, self.shape if shape is None else shape)
        return PjrtBuffer(self._connection, handle, spec, self._memory, self._device)

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        array = fetch.to_numpy(
            self, self._handle, self._spec, self._memory, self._connection, self._given_layout
        )
        if dtype is None and copy is None:
            return array
        if dtype is not None and array.dtype != dtype:
            if copy is False:
                msg = "a change of dtype needs a copy, and copy=False forbids it."
                raise ValueError(msg)
            return array.astype(dtype)
        return array.copy() if copy else array

    def __dlpack__(  # type: ignore[override]  # the options that there are, by name
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> object:
        """Export the data as a DLPack capsule that keeps the memory alive."""
        from devrt_pjrt.buffers import dlpack

        return dlpack.export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        from devrt_pjrt.buffers import dlpack

        return dlpack.device_of(self)

    def __len__(self) -> int:
        if not self._spec.shape:
            msg = "len() of a buffer without dimensions"
            raise TypeError(msg)
        return self._spec.shape[0]

    def __repr__(self) -> str:
        state = ", deleted" if self.is_deleted() else ""
        return f"PjrtBuffer({self.describe()}{state})"

    def describe(self) -> str:
        """Return dtype, shape and target, for messages."""
        return f"{self._spec} on {self._device}, memory={self._memory.kind}"

    def pinned(self, operation: str) -> Pinned:
        """Return a context that yields the plugin's buffer, which stays as it is meanwhile."""
        return Pinned(self, operation)


def handles_of(
    buffers: Sequence[Any], specs: Sequence[Spec], device: PjrtDevice | None
) -> list[int] | None:
    """Return the handles of plain buffers on a device; None if one is something else.

    A program's fast path: it reads what the properties return, at a third of their cost.
    """
    handles = []
    for buffer, spec in zip(buffers, specs, strict=True):
        if (
            buffer.__class__ is not PjrtBuffer
            or buffer._device is not device
            or (buffer._spec is not spec and buffer._spec != spec)
        ):
            return None
        handles.append(buffer._handle)
    return handles
