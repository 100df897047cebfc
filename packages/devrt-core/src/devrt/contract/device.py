"""Devices and the memories that they address."""

from __future__ import annotations

import abc
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any

from devrt.contract.members import Contract

if TYPE_CHECKING:
    from devrt.contract.buffer import Buffer
    from devrt.contract.client import Client

__all__ = ["Device", "Memory"]


class Device(metaclass=Contract):
    """One addressable unit of a platform.

    A client hands out one object per device for as long as it lives, so devices compare and hash
    by identity. A device called returns itself, so that ``array.device`` and ``array.device()``
    are both the device.

    Attributes
    ----------
    id : int
        Number of the device, unique among all processes of the platform.
    process_index : int
        The process that the device is attached to.
    host_id, task_id : int
        Older names of ``process_index``.
    local_hardware_id : int or None
        The driver's number for the hardware; None where there is none.
    platform : str
        The platform, as ``devrt.devices(platform)`` takes it.
    device_kind : str
        The hardware's model, as the driver names it: printable text.
    client : Client
        The client that owns the device.
    """

    @property
    @abc.abstractmethod
    def id(self) -> int: ...

    @property
    @abc.abstractmethod
    def process_index(self) -> int: ...

    @property
    def host_id(self) -> int:
        return self.process_index

    @property
    def task_id(self) -> int:
        return self.process_index

    @property
    @abc.abstractmethod
    def local_hardware_id(self) -> int | None: ...

    @property
    @abc.abstractmethod
    def platform(self) -> str: ...

    @property
    @abc.abstractmethod
    def device_kind(self) -> str: ...

    @property
    @abc.abstractmethod
    def client(self) -> Client: ...

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What the platform says of the device beyond the above, such as its coordinates.

        Each is an attribute of the device too, as of JAX's devices: ``device.core_count``.
        """
        return {}

    def __getattr__(self, name: str) -> Any:
        # What reading the attributes itself lacks is not looked for among them again.
        if not name.startswith("_") and name != "attributes":
            attributes = self.attributes
            if name in attributes:
                return attributes[name]
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg, name=name, obj=self)

    def __call__(self) -> Device:
        return self

    @abc.abstractmethod
    def memory(self, kind: str) -> Memory:
        """Return the memory of kind ``kind``.

        ``"default"`` and ``"pinned"`` are names too, as `devrt.contract.memory_kind_named` reads
        them.

        Raises
        ------
        InvalidArgumentError
            If the device addresses no such memory; the message lists those it does.
        """

    @abc.abstractmethod
    def default_memory(self) -> Memory:
        """Return the memory that buffers go to when none is named."""

    @abc.abstractmethod
    def addressable_memories(self) -> list[Memory]:
        """Return every memory that the device can address, the default one first."""

    @abc.abstractmethod
    def live_buffers(self) -> list[Buffer]:
        """Return the buffers on this device that are neither deleted nor collected."""

    def live_arrays(self) -> list[Buffer]:
        """Return `live_buffers` under jaxlib's name."""
        return self.live_buffers()

    @abc.abstractmethod
    def memory_stats(self) -> dict[str, int] | None:
        """Return counts and bytes of the device's memories, keyed as JAX keys them.

        ``bytes_in_use`` is always among them. None, and no empty mapping, where a plugin that devrt
        did not write has no statistics.
        """

    def mark_peak_bytes(self) -> int | None:
        """Return the most bytes in use since the last call, and count anew from now.

        None where the backend keeps no such count.
        """
        return None

    def get_stream_for_external_ready_events(self) -> int:
        """Return a handle of the stream on which another runtime may signal readiness.

        It is that of the calling thread's execution stream, a `StreamHandle`: what fills memory for
        this client has the stream wait for its work.

        Raises
        ------
        UnimplementedError
            On platforms without streams.
        """
        from devrt.errors import UnimplementedError

        msg = f"{self!r} has no stream for external ready events: the platform has no streams."
        raise UnimplementedError(msg, device=str(self))


class Memory(metaclass=Contract):
    """An address space of one or more devices.

    Attributes
    ----------
    kind : str
        ``"device"``, ``"pinned_host"``, ``"unpinned_host"`` or a kind that a plugin adds.
    platform : str
        The platform of its devices.
    process_index : int
        The process that it belongs to.
    address_space : hashable
        Equal for memories whose buffers may share allocations; the memory itself by default.
    shares_parts : bool
        Whether a buffer may show an aligned part of another one in the same address space, so that
        `Client.assemble_buffers` does not copy it; False by default.
    is_host_visible : bool
        Whether the host reads it in place, so that reading moves nothing; False by default.
    """

    @property
    def address_space(self) -> Hashable:
        return self

    @property
    def shares_parts(self) -> bool:
        return False

    @property
    def is_host_visible(self) -> bool:
        return False

    @property
    @abc.abstractmethod
    def kind(self) -> str: ...

    @property
    @abc.abstractmethod
    def platform(self) -> str: ...

    @property
    @abc.abstractmethod
    def process_index(self) -> int: ...

    @abc.abstractmethod
    def addressable_by_devices(self) -> list[Device]:
        """Return the devices that can address this memory."""

    def memory_stats(self) -> dict[str, Any] | None:
        """Return this memory's own statistics, keyed as `Device.memory_stats`; None if unknown."""
        return None
