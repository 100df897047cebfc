"""The platform's client: devices, their memory, and the buffers on it."""

from __future__ import annotations

import itertools
import os
import threading
import weakref
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.contract import (
    Buffer,
    Client,
    Device,
    HostBufferSemantics,
    Memory,
    memory_kind_named,
)
from devrt.errors import (
    ClosedError,
    DeletedError,
    ForkedError,
    InvalidArgumentError,
    OutOfMemoryError,
)


class AcmeMemory(Memory):
    """The simulated memory of one device."""

    def __init__(self, device: AcmeDevice) -> None:
        self._device = device

    @property
    def kind(self) -> str:
        return "device"

    @property
    def platform(self) -> str:
        return "acme"

    @property
    def process_index(self) -> int:
        return 0

    def addressable_by_devices(self) -> list[Device]:
        return [self._device]


class AcmeDevice(Device):
    """A simulated device."""

    def __init__(self, client: AcmeClient, number: int) -> None:
        self._client = client
        self._number = number
        self._memory = AcmeMemory(self)

    @property
    def id(self) -> int:
        return self._number

    @property
    def process_index(self) -> int:
        return 0

    @property
    def local_hardware_id(self) -> int | None:
        return self._number

    @property
    def platform(self) -> str:
        return self._client.platform

    @property
    def device_kind(self) -> str:
        return "Acme Simulator 1"

    @property
    def client(self) -> AcmeClient:
        return self._client

    def memory(self, kind: str) -> Memory:
        if memory_kind_named(kind, ["device"]) != "device":
            msg = f"{self} has no memory of kind {kind!r}; it has 'device'."
            raise InvalidArgumentError(msg, kind=kind)
        return self._memory

    def default_memory(self) -> Memory:
        return self._memory

    def addressable_memories(self) -> list[Memory]:
        return [self._memory]

    def live_buffers(self) -> list[Buffer]:
        return [b for b in self._client.live_buffers() if b.device is self]

    def memory_stats(self) -> dict[str, int]:
        # Clones are on one allocation, which counts once.
        found = [b._data for b in self._client._live() if b._device is self]
        sizes = {id(data): data.nbytes for data in found if data is not None}
        return {"bytes_in_use": sum(sizes.values()), "num_allocs": len(sizes)}

    def __repr__(self) -> str:
        return f"AcmeDevice(id={self._number})"

    def __str__(self) -> str:
        return f"acme:{self._number}"


class AcmeBuffer(Buffer):
    """A NumPy array that stands for device memory."""

    def __init__(self, data: np.ndarray[Any, Any], device: AcmeDevice) -> None:
        self._shape, self._dtype = data.shape, data.dtype
        self._data: np.ndarray[Any, Any] | None = data
        self._device = device
        device.client._register(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype

    @property
    def device(self) -> AcmeDevice:
        return self._device

    @property
    def memory(self) -> Memory:
        return self._device.default_memory()

    def is_ready(self) -> bool:
        self._alive()
        return True

    def block_until_ready(self) -> AcmeBuffer:
        self._alive()
        return self

    def is_deleted(self) -> bool:
        return self._data is None

    def delete(self) -> None:
        self._data = None

    def clone(self) -> AcmeBuffer:
        return AcmeBuffer(self._alive(), self._device)

    def copy_to_memory(self, memory: Memory, *, may_alias: bool = True) -> AcmeBuffer:
        (device,) = memory.addressable_by_devices()
        if not isinstance(device, AcmeDevice) or device.client is not self._device.client:
            msg = f"a buffer on {self._device} cannot be copied to {device} directly."
            raise InvalidArgumentError(msg)
        data = self._alive()
        alias = may_alias and device is self._device
        return AcmeBuffer(data if alias else _allocated(data, data.dtype, device), device)

    def on_device_size_in_bytes(self) -> int:
        return int(self._alive().nbytes)

    def unsafe_buffer_pointer(self) -> int:
        return int(self._alive().ctypes.data)

    def __array__(
        self, dtype: np.dtype[Any] | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        view = self._alive().view()
        view.flags.writeable = False
        return np.array(view, dtype=dtype, copy=copy)

    def _alive(self) -> np.ndarray[Any, Any]:
        self._device.client._check("use a buffer")
        if self._data is None:
            msg = f"this buffer of shape {self._shape} on {self._device} was deleted."
            raise DeletedError(msg, device=str(self._device))
        return self._data


def _allocated(
    source: np.ndarray[Any, Any], dtype: np.dtype[Any], device: AcmeDevice
) -> np.ndarray[Any, Any]:
    """Return a dense copy of the source, which stands for new memory of the device."""
    try:
        return np.array(source, dtype=dtype, order="C")
    except MemoryError as error:
        msg = f"out of memory: cannot allocate {source.nbytes} bytes on {device}."
        raise OutOfMemoryError(msg, device=str(device), requested=source.nbytes) from error


class AcmeClient(Client):
    """A connection to the simulated platform."""

    def __init__(self, num_devices: int) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._process = os.getpid()
        self._numbers = itertools.count()
        self._buffers: weakref.WeakValueDictionary[int, AcmeBuffer] = weakref.WeakValueDictionary()
        self._devices = [AcmeDevice(self, number) for number in range(num_devices)]

    @property
    def platform(self) -> str:
        return "acme"

    @property
    def platform_version(self) -> str:
        return "acme simulator 1"

    @property
    def runtime_type(self) -> str:
        return "python"

    @property
    def is_closed(self) -> bool:
        return self._closed

    def process_index(self) -> int:
        return 0

    def devices(self) -> list[Device]:
        return list(self._devices)

    def local_devices(self) -> list[Device]:
        return list(self._devices)

    def buffer_from_pyval(
        self,
        argument: Any,
        device: Device | Memory | None = None,
        force_copy: bool = False,
        host_buffer_semantics: int = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL,
    ) -> AcmeBuffer:
        self._check("put a value")
        if isinstance(device, Memory):
            (device,) = device.addressable_by_devices()
        target = self._devices[0] if device is None else device
        if not isinstance(target, AcmeDevice) or target.client is not self:
            msg = f"{target} is no device of this acme client."
            raise InvalidArgumentError(msg)
        # NumPy reads bytes as a string unless they are marked as a buffer.
        host = np.asarray(memoryview(argument) if isinstance(argument, bytes) else argument)
        dtype = dtypes.to_numpy(dtypes.code_of(host.dtype))
        return AcmeBuffer(_allocated(host, dtype, target), target)

    def live_buffers(self) -> list[Buffer]:
        return list(self._live())

    def close(self) -> None:
        with self._lock:
            self._closed = True
        for buffer in self._live():
            buffer.delete()

    def _live(self) -> list[AcmeBuffer]:
        """Return the buffers that are not deleted; a dictionary has them in their order."""
        with self._lock:
            found = list(self._buffers.values())
        return [buffer for buffer in found if not buffer.is_deleted()]

    def _check(self, operation: str) -> None:
        if self._process != os.getpid():
            msg = f"cannot {operation}: this process was forked from the acme client's."
            raise ForkedError(msg, operation=operation)
        if self._closed:
            msg = f"cannot {operation}: the acme client was closed; make another one."
            raise ClosedError(msg, operation=operation)

    def _register(self, buffer: AcmeBuffer) -> None:
        with self._lock:
            self._buffers[next(self._numbers)] = buffer
