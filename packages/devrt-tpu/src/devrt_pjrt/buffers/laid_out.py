"""Buffers whose elements lie in another order than their client's default."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devrt_pjrt.buffers.buffer import PjrtBuffer

if TYPE_CHECKING:
    from devrt.layout import Layout
    from devrt_pjrt.buffers.spec import Spec
    from devrt_pjrt.connection.connection import Connection
    from devrt_pjrt.connection.device import PjrtDevice, PjrtMemory

__all__ = ["LaidOutBuffer"]


class LaidOutBuffer(PjrtBuffer):
    """A buffer in a layout of its own: it was put so, or a program returns it so."""

    __slots__ = ("_given_layout",)

    _given_layout: Layout

    def __init__(
        self,
        connection: Connection,
        handle: int,
        spec: Spec,
        memory: PjrtMemory,
        device: PjrtDevice,
        layout: Layout,
    ) -> None:
        super().__init__(connection, handle, spec, memory, device)
        self._given_layout = layout

    @property
    def layout(self) -> Layout:
        """How the elements lie in the device's memory."""
        with self.pinned("layout"):  # plugins forget it in copies
            return self._given_layout

    def like(self, handle: int, memory: PjrtMemory, device: PjrtDevice) -> LaidOutBuffer:
        """Return a buffer of the same dtype, shape and layout on another handle."""
        return LaidOutBuffer(
            self._connection, handle, self._spec, memory, device, self._given_layout
        )
