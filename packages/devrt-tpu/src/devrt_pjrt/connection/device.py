"""Devices and memories of a PJRT client."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from devrt.contract import Buffer, Client, Device, Memory, memory_kind_named
from devrt.errors import DeletedError, InternalError, InvalidArgumentError, UnimplementedError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.api import Api, text_of
from devrt_pjrt.library.handle import Handle
from devrt_pjrt.library.values import read_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from devrt_pjrt.connection.connection import Connection

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
    """What a plugin says of a device that need not be present, read once, as plain values."""

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
    """One address space of a client's devices.

    Attributes
    ----------
    pointer
        The plugin's own.
    host_visible : bool or None
        Whether the host can read it through a pointer; None until that is known.
    transposes : bool or None
        Whether the plugin puts elements here where a layout says; None until that is known.
    is_declared_visible : bool
        Whether the platform's own plugin says that the host reads it in place.
    """

    def __init__(self, connection: Connection, row: Any) -> None:
        self._connection = connection
        self._row = row
        self.pointer = row.pointer
        # Found out with the first buffers.
        self.host_visible: bool | None = None
        self.transposes: bool | None = None
        self.is_declared_visible = False

    @functools.cached_property
    def id(self) -> int:
        """Number of the memory, unique in its process."""
        return int(self._row.about.id)

    @functools.cached_property
    def kind(self) -> str:
        about = self._row.about
        return text_of(about.kind, about.kind_size)

    @property
    def is_host_visible(self) -> bool:
        return self.is_declared_visible

    @functools.cached_property
    def devices(self) -> list[PjrtDevice]:
        """The devices of this process that can address it."""
        return [d for d in self._connection.inventory.local if self in d.memories]

    @functools.cached_property
    def _text(self) -> str:
        about = self._row.about
        return text_of(about.text, about.text_size)

    @property
    def platform(self) -> str:
        return self._connection.platform

    @property
    def process_index(self) -> int:
        return self._connection.inventory.process_index

    @property
    def client(self) -> Client:
        """The client that owns the memory."""
        return self._connection.client

    def addressable_by_devices(self) -> list[Device]:
        return list(self.devices)

    def memory_stats(self) -> dict[str, int]:
        """Return what the buffers on this memory take, counted by devrt."""
        return _count(b for b in self.client.live_buffers() if b.memory is self)

    def __repr__(self) -> str:
        return f"PjrtMemory(id={self.id}, kind={self.kind!r}, {self._text})"

    def __str__(self) -> str:
        return self._text


class PjrtDevice(Handle, Device):
    """One device of a PJRT client."""

    def __init__(self, connection: Connection, row: Any) -> None:
        self._connection = connection
        self._row = row
        self.pointer = row.pointer
        self._id = int(row.about.id)
        self.is_addressable = bool(row.is_addressable)

    @property
    def id(self) -> int:
        return self._id

    @functools.cached_property
    def process_index(self) -> int:
        return int(self._row.about.process_index)

    @property
    def local_hardware_id(self) -> int | None:
        """The plugin's number for the hardware; None where another process has it."""
        number = int(self._row.hardware_id)
        return number if number >= 0 else None

    @property
    def platform(self) -> str:
        return self._connection.platform

    @functools.cached_property
    def device_kind(self) -> str:
        about = self._row.about
        return text_of(about.kind, about.kind_size)

    @functools.cached_property
    def attributes(self) -> Mapping[str, Any]:
        """What the plugin says of the device beyond the above; each is an attribute too."""
        about = self._row.about
        return MappingProxyType(read_values(about.attributes, about.num_attributes))

    @property
    def client(self) -> Client:
        return self._connection.client

    def memory(self, kind: str) -> Memory:
        if isinstance(kind, str):
            name = memory_kind_named(kind, [memory.kind for memory in self.memories])
            for memory in self.memories:
                if memory.kind == name:
                    return memory
        known = ", ".join(repr(memory.kind) for memory in self.memories) or "none"
        msg = f"{self} has no memory of kind {kind!r}; it has {known}."
        raise InvalidArgumentError(msg, kind=kind, device=str(self))

    def default_memory(self) -> PjrtMemory:
        if self._default is None:
            msg = (
                f"{self} belongs to process {self.process_index}: its memory is not in reach here."
            )
            raise InvalidArgumentError(msg, device=str(self))
        return self._default

    def addressable_memories(self) -> list[Memory]:
        return list(self.memories)

    def live_buffers(self) -> list[Buffer]:
        return [buffer for buffer in self.client.live_buffers() if buffer.device is self]

    def memory_stats(self) -> dict[str, int]:
        """Return the plugin's statistics, or where it has none, what devrt has counted itself."""
        connection = self._connection
        with connection.using("memory_stats"):
            try:
                found = connection.api.call("PJRT_Device_MemoryStats", device=self.pointer)
            except UnimplementedError:
                return _count(self.live_buffers())
        stats = {"bytes_in_use": int(found.bytes_in_use)}
        for name in _STATISTICS:
            if getattr(found, f"{name}_is_set"):
                stats[name] = int(getattr(found, name))
        return stats

    def __repr__(self) -> str:
        about = self._row.about
        return f"PjrtDevice(id={self.id}, {text_of(about.text, about.text_size)})"

    def __str__(self) -> str:
        return f"{self._connection.platform}:{self.id}"

    @functools.cached_property
    def _default(self) -> PjrtMemory | None:
        """The memory that buffers go to; None where another process has the device."""
        if not self.is_addressable:
            return None
        memories, at = self._connection.inventory.memories, int(self._row.default_memory)
        if at < len(memories):
            return memories[at]
        if found := self._found():
            return found[0]
        msg = (
            f"the PJRT plugin {self._connection.api.name} has a device without a memory: {self!r}."
        )
        raise InternalError(msg, operation="PJRT_Device_AddressableMemories")

    @functools.cached_property
    def memories(self) -> list[PjrtMemory]:
        """Its memories, the default one first."""
        default = self._default
        return [] if default is None else [default, *(m for m in self._found() if m is not default)]

    def _found(self) -> list[PjrtMemory]:
        memories = self._connection.inventory.memories
        indices = ffi.unpack(self._row.memories, self._row.num_memories)
        return [memories[at] for at in indices if at < len(memories)]


def _count(buffers: Iterable[Buffer]) -> dict[str, int]:
    """Return what buffers take together; those on one allocation, as clones are, take it once."""
    found = dict(_allocation(buffer) for buffer in buffers)
    sizes = [size for at, size in found.items() if at]
    return {
        "bytes_in_use": sum(sizes),
        "num_allocs": len(sizes),
        "largest_alloc_size": max(sizes, default=0),
    }


def _allocation(buffer: Any) -> tuple[int, int]:
    """Return the plugin's buffer as a number, 0 for one that is deleted by now, and its size."""
    try:
        with buffer.pinned("memory_stats") as pointer:
            return int(ffi.cast("uintptr_t", pointer)), buffer.nbytes
    except DeletedError:
        return 0, 0
