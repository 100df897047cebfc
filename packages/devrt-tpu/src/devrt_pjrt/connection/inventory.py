"""The devices and memories of a client, read once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt.errors import InternalError, InvalidArgumentError
from devrt_pjrt._native import ffi
from devrt_pjrt.connection.device import PjrtDevice, PjrtMemory
from devrt_pjrt.connection.target import Target
from devrt_pjrt.library.api import text_of

if TYPE_CHECKING:
    from devrt_pjrt.connection.connection import Connection

__all__ = ["Inventory"]

_TARGETS = (PjrtDevice, PjrtMemory, type(None))


class Inventory:
    """What the plugin says of a client: its devices, its memories, and where buffers can go.

    ``platform`` and ``version`` are as the plugin says them; ``memories`` are as it counts them,
    ``devices`` and ``local``, those of this process, by id. ``targets`` has where buffers go, by
    the target that was named.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # Rows point into the snapshot, which must live as long as they are looked at.
        self._snapshot = snapshot = connection.api.snapshot(connection.pointer)
        about = snapshot.about
        self.platform = text_of(about.kind, about.kind_size)
        self.version = text_of(about.text, about.text_size).strip()
        self.process_index = int(about.process_index)
        rows = snapshot.memories[0 : snapshot.num_memories]
        self.memories = [PjrtMemory(connection, row) for row in rows]
        rows = snapshot.devices[0 : snapshot.num_devices]
        made = [PjrtDevice(connection, row) for row in rows]
        self._by_address = {_address(device.pointer): device for device in made}
        self.devices = sorted(made, key=lambda device: device.id)
        self.local = [device for device in self.devices if device.is_addressable]
        self.targets: dict[Any, Target] = {}
        if not self.local:
            library = connection.library
            msg = f"the PJRT plugin {library.label} made a client without a device."
            raise InternalError(msg, plugin=library.name)

    def device_at(self, pointer: Any) -> PjrtDevice:
        """Return the device that the plugin has at an address."""
        return self._by_address[_address(pointer)]

    def target(self, given: Any, operation: str) -> Target:
        """Return where a buffer goes that is put on a device or a memory; None is the first device.

        Raises `InvalidArgumentError` if it is neither, or another process's.
        """
        target = self.targets.get(given) if isinstance(given, _TARGETS) else None
        if target is None:
            target = self.targets[given] = self._resolve(given, operation)
        return target

    def _resolve(self, given: Any, operation: str) -> Target:
        client = self._connection.client
        device, memory = given, None
        if given is None:
            device = self.local[0]
        elif isinstance(given, PjrtMemory) and given.client is client and given.devices:
            device, memory = given.devices[0], given
        if not isinstance(device, PjrtDevice) or device.client is not client:
            msg = f"{operation} failed: {given!r} is no device and no memory of {client!r}."
            raise InvalidArgumentError(msg, operation=operation)
        if not device.is_addressable:
            msg = (
                f"{operation} failed: {device} belongs to process {device.process_index}, and "
                f"this one is {self.process_index}. Name a device of client.local_devices()."
            )
            raise InvalidArgumentError(msg, operation=operation, device=str(device))
        default = device.default_memory()
        where = memory or default
        return Target(
            device, where, device.pointer, ffi.NULL if where is default else where.pointer
        )


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))
