"""Buffers, and what a client may do with the host memory they are made from."""

from __future__ import annotations

import abc
import enum
import math
from typing import TYPE_CHECKING, Any

from devrt.contract.members import Contract

if TYPE_CHECKING:
    import numpy as np

    from devrt.contract.device import Device, Memory
    from devrt.contract.traceback import Traceback
    from devrt.layout import Layout, PjRtLayout

__all__ = ["Buffer", "HostBufferSemantics"]


class HostBufferSemantics(enum.IntEnum):
    """What the caller promises about the source of a transfer, as PJRT numbers it.

    Source: ``PJRT_HostBufferSemantics`` of the PJRT C API.
    """

    IMMUTABLE_ONLY_DURING_CALL = 0
    """The source is not touched after the call returns; the caller may change it at once."""
    IMMUTABLE_UNTIL_TRANSFER_COMPLETES = 1
    """The source must not change until the buffer is ready; the client keeps it alive."""
    IMMUTABLE_ZERO_COPY = 2
    """The buffer may alias the source, which must not change while the buffer lives."""
    MUTABLE_ZERO_COPY = 3
    """As above; the device may write to the source when the buffer is donated, and not before."""
    ZERO_COPY = 2
    """jaxlib's name for ``IMMUTABLE_ZERO_COPY``."""


class Buffer(metaclass=Contract):
    """One immutable allocation on one memory, with a shape, a dtype and a ready event.

    Every member that looks at the data waits for the ready event, and raises its error if the
    work that was to fill the buffer failed. Members other than `delete` and `is_deleted` raise
    `devrt.errors.DeletedError` on a deleted buffer, except ``shape``, ``dtype`` and what follows
    from them.
    """

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]: ...

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype[Any]: ...

    @property
    @abc.abstractmethod
    def memory(self) -> Memory:
        """The memory that the buffer lies on."""

    @property
    @abc.abstractmethod
    def device(self) -> Device:
        """The device that the buffer belongs to."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def layout(self) -> Layout:
        """The order of the elements in memory; row-major unless the backend says otherwise."""
        from devrt.layout import row_major

        return row_major(self.ndim)

    @property
    def pjrt_layout(self) -> PjRtLayout:
        """The same as `layout`, in the form that PJRT's functions take and return."""
        from devrt.layout import PjRtLayout

        return PjRtLayout(self.layout)

    @property
    def traceback(self) -> Traceback | None:
        """Where the buffer was made, if the backend notes it; else None."""
        return None

    @abc.abstractmethod
    def is_ready(self) -> bool:
        """Return whether the data has arrived, without waiting."""

    @abc.abstractmethod
    def block_until_ready(self) -> Buffer:
        """Wait for the data, with the GIL released; return the buffer or raise its error."""

    @abc.abstractmethod
    def is_deleted(self) -> bool:
        """Return whether `delete` was called or the buffer was donated."""

    @abc.abstractmethod
    def delete(self) -> None:
        """Give the memory back as soon as no work in flight uses it. Idempotent."""

    @abc.abstractmethod
    def copy_to_memory(self, memory: Memory, *, may_alias: bool = True) -> Buffer:
        """Start a copy to another memory of the same client.

        Parameters
        ----------
        memory
            The target, on any device of the same client.
        may_alias
            Whether the result may share the allocation where both memories are one address
            space. Buffers are immutable, so sharing cannot be seen except by its speed.

        Returns
        -------
        Buffer
            A new buffer with a ready event of its own. Does not wait.
        """

    @abc.abstractmethod
    def clone(self) -> Buffer:
        """Return another handle on the same allocation, deleted independently of this one."""

    @abc.abstractmethod
    def on_device_size_in_bytes(self) -> int:
        """Return the size of the allocation, padding included, in bytes."""

    @abc.abstractmethod
    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the data, valid only while the buffer is alive."""

    @abc.abstractmethod
    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        """Return the data as a read-only NumPy array: a view where memory is host-visible.

        Every reader of an array is handed the same one, so that nobody may write to it: devrt
        makes one that is writable, or a view of one, read-only without copying its elements. With
        ``copy=True`` it is the caller's own, and writable. Both parameters are as NumPy's protocol
        has them: what cannot be had without a copy is refused with ``copy=False``.
        """

    def copy_to_host_async(self) -> None:
        """Start what a later `__array__` waits for, where there is anything to start."""
        return None

    def __dlpack__(self, **options: Any) -> Any:
        """Return the data as a DLPack capsule.

        It keeps the memory until its consumer releases it. The options are those of the array API's
        protocol: ``copy=True`` always copies, and what is of another type than the protocol has it
        is refused.

        Raises
        ------
        UnimplementedError
            If the backend exports none.
        BufferError
            If the data cannot be had on ``dl_device``.
        """
        raise _no_dlpack(self, "__dlpack__")

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's number of the kind of device, and the device's own."""
        raise _no_dlpack(self, "__dlpack_device__")


def _no_dlpack(buffer: Buffer, operation: str) -> Exception:
    from devrt.errors import UnimplementedError

    platform = buffer.device.platform
    msg = (
        f"the {platform} backend exports no buffers through DLPack. Copy the data through the "
        "host, with numpy.asarray."
    )
    return UnimplementedError(msg, operation=operation, platform=platform)
