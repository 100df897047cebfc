"""Where a buffer goes: a device and one of its memories, resolved once for each that is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from devrt_pjrt.connection.device import PjrtDevice, PjrtMemory

__all__ = ["Target"]


class Target(NamedTuple):
    """A device and a memory of it, with the pointers that the plugin takes for them.

    The memory's is passed only where it is not the device's default one, as some plugins know no
    memories.
    """

    device: PjrtDevice
    memory: PjrtMemory
    device_pointer: Any
    memory_pointer: Any
