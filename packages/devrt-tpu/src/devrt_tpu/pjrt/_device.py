"""Devices and memories of a PJRT client."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from devrt.contract import Buffer, Device, Memory
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt_tpu.pjrt._api import Api, text_of
from devrt_tpu.pjrt._handle import Handle
from devrt_tpu.pjrt._native import ffi, lib
from devrt_tpu.pjrt._values import read_values

if TYPE_CHECKING:
    from collections.abc import Mapping

    from devrt_tpu.pjrt._client import PjrtClient

__all__ = ["Description", "PjrtDevice", "PjrtMemory"]

_STATISTICS = (
    "peak_bytes_in_use",
    "num_allocs",
    "largest_alloc_size",
    "bytes_limit",
    "bytes_reserved",
    "peak_bytes_reserved",
    "bytes_reservable_limit",
    "largest_free_block_bytes",
    "pool_bytes",
    "peak_pool_bytes",
    "peak_allocated_bytes",
)


class Description:
    """What a plugin says of a device, present or not: read once, kept as plain values."""

    __slots__ = ("attributes", "debug_string", "id", "kind", "process_index", "text")

    def __init__(self, api: Api, pointer: Any) -> None:
        row = api.describe_with(lib.devrt_describe_device, pointer)
        self.id = int(row.id)
        self.process_index = int(row.process_index)
        self.kind = text_of(row.kind, row.kind_size)
        self.text = text_of(row.text, row.text_size)
        self.debug_string = text_of(row.debug, row.debug_size)
        values = read_values(row.attributes, row.num_attributes)
        self.attributes: Mapping[str, Any] = MappingProxyType(values)


class PjrtMemory(Handle, Memory):
    """One address space of a client's devices."""

    def __init__(self, client: PjrtClient, pointer: Any) -> None:
        self._client = client
        self._pointer = pointer
        self._devices: list[PjrtDevice] = []
        self._is_host_visible: bool | None = None
        row = client._api.describe_with(lib.devrt_describe_memory, pointer)
        self.id = int(row.id)
        self._kind = text_of(row.kind, row.kind_size)
        self._text = text_of(row.text, row.text_size)

    @property
    def kind(self) -> str:
        """The kind, as the plugin names it."""
        return self._kind

    @property
    def platform(self) -> str:
        """The platform of the memory's devices."""
        return self._client.platform

    @property
    def process_index(self) -> int:
        """The process that the memory belongs to."""
        return self._client.process_index()

    @property
    def client(self) -> PjrtClient:
        """The client that owns the memory."""
        return self._client

    def addressable_by_devices(self) -> list[Device]:
        """Return the devices of this process that can address the memory."""
        return list(self._devices)

    def memory_stats(self) -> dict[str, int]:
        """Return what the buffers on this memory take, counted by devrt."""
        return self._client._count(lambda buffer: buffer._memory is self)

    def __repr__(self) -> str:
        return f"PjrtMemory(id={self.id}, kind={self._kind!r}, {self._text})"

    def __str__(self) -> str:
        return self._text


class PjrtDevice(Handle, Device):
    """One device of a PJRT client."""

    def __init__(self, client: PjrtClient, pointer: Any) -> None:
        api = client._api
        found = api.call("PJRT_Device_GetDescription", device=pointer)
        self._client = client
        self._pointer = pointer
        self._about = Description(api, found.device_description)
        self._memories: list[PjrtMemory] = []
        self._default: PjrtMemory | None = None
        self.is_addressable = bool(
            api.call("PJRT_Device_IsAddressable", device=pointer).is_addressable
        )
        self._hardware_id: int | None = None
        if self.is_addressable:
            number = api.call("PJRT_Device_LocalHardwareId", device=pointer).local_hardware_id
            self._hardware_id = int(number) if number >= 0 else None

    @property
    def id(self) -> int:
        """Number of the device, unique among all processes."""
        return self._about.id

    @property
    def process_index(self) -> int:
        """The process that the device is attached to."""
        return self._about.process_index

    @property
    def local_hardware_id(self) -> int | None:
        """The plugin's number for the hardware; None where another process has it."""
        return self._hardware_id

    @property
    def platform(self) -> str:
        """The platform, as users name it."""
        return self._client.platform

    @property
    def device_kind(self) -> str:
        """The hardware's model."""
        return self._about.kind

    @property
    def client(self) -> PjrtClient:
        """The client that owns the device."""
        return self._client

    def memory(self, kind: str) -> Memory:
        """Return the memory of a kind; the error lists those that there are."""
        for memory in self._memories if isinstance(kind, str) else ():
            if memory.kind == kind:
                return memory
        known = ", ".join(repr(memory.kind) for memory in self._memories) or "none"
        msg = f"{self} has no memory of kind {kind!r}; it has {known}."
        raise InvalidArgumentError(msg, kind=kind, device=str(self))

    def default_memory(self) -> Memory:
        """Return the memory that buffers go to when none is named."""
        if self._default is None:
            msg = (
                f"{self} belongs to process {self.process_index}: its memory is not in reach here."
            )
            raise InvalidArgumentError(msg, device=str(self))
        return self._default

    def addressable_memories(self) -> list[Memory]:
        """Return every memory of the device, the default one first."""
        return list(self._memories)

    def live_buffers(self) -> list[Buffer]:
        """Return the buffers on this device that are neither deleted nor collected."""
        return [buffer for buffer in self._client.live_buffers() if buffer.device is self]

    def memory_stats(self) -> dict[str, int]:
        """Return the plugin's statistics, or where it has none, what devrt has counted itself."""
        api = self._client._api
        with self._client._using("memory_stats"):
            try:
                found = api.call("PJRT_Device_MemoryStats", device=self._pointer)
            except UnimplementedError:
                return self._client._count(lambda buffer: buffer._device is self)
        stats = {"bytes_in_use": int(found.bytes_in_use)}
        for name in _STATISTICS:
            if getattr(found, f"{name}_is_set"):
                stats[name] = int(getattr(found, name))
        return stats

    def __getattr__(self, name: str) -> Any:
        about = self.__dict__.get("_about")
        if about is not None and name in about.attributes:
            return about.attributes[name]
        msg = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(msg)

    def __repr__(self) -> str:
        return f"PjrtDevice(id={self.id}, {self._about.text})"

    def __str__(self) -> str:
        return f"{self._client.platform}:{self.id}"

    def _connect(self, by_address: dict[int, PjrtMemory]) -> None:
        """Find the device's memories among the client's, the default one first."""
        api = self._client._api
        if not self.is_addressable:
            return
        args = api.call("PJRT_Device_AddressableMemories", device=self._pointer)
        found = [by_address[_address(args.memories[i])] for i in range(args.num_memories)]
        default = api.call("PJRT_Device_DefaultMemory", device=self._pointer).memory
        self._default = by_address[_address(default)]
        self._memories = [self._default, *(m for m in found if m is not self._default)]
        for memory in self._memories:
            memory._devices.append(self)


def _address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))
