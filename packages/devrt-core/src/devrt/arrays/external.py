"""Arrays of other libraries that lie on devices, and what arrays show to those libraries."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from devrt.arrays.array import Array
from devrt.contract.device import Device, Memory
from devrt.runtime import default_runtime
from devrt.sharding import Sharding

if TYPE_CHECKING:
    from devrt.contract import Buffer, Client

__all__ = ["is_on_device", "taken_over"]

_HOST_TYPES = (1, 3, 11)  # of DLDeviceType: memory that the host reads


def is_on_device(x: Any) -> bool:
    """Return whether a value says that it lies in memory that the host may not read."""
    kind = type(x)
    if kind.__module__ in ("numpy", "builtins"):
        return False
    if hasattr(kind, "__dlpack_device__"):
        try:
            return operator.index(x.__dlpack_device__()[0]) not in _HOST_TYPES
        except Exception:  # noqa: BLE001  another library's code; who reads the value learns why
            return False
    return hasattr(x, "__cuda_array_interface__")


def taken_over(x: Any, copy: bool | None, target: Any = None) -> Array | None:
    """Return an array of another library on the device where it lies; None if no client has it.

    With ``copy`` the result is waited for, because its source may change afterwards. The client of
    the target comes first: several clients may have one device, and a copy between them is saved.
    """
    for client in _clients(target):
        buffer: Buffer | None = client.buffer_from_external(x, copy)
        if buffer is not None:
            return Array((buffer.block_until_ready() if copy else buffer,), None, None, False)
    return None


def _clients(target: Any) -> Iterator[Client]:
    """Yield the target's clients, then the others, made only if those have not got the array."""
    first = _clients_of(target)
    yield from first
    runtime = default_runtime()
    runtime.default_device()  # so that there is a client
    yield from (client for client in runtime.all_clients() if client not in first)


def _clients_of(target: Any) -> list[Client]:
    """Return the clients of a target's devices: of a device, memory, sharding or format."""
    if isinstance(target, Device):
        return [target.client]
    if isinstance(target, Memory):
        return [device.client for device in target.addressable_by_devices()[:1]]
    lies = getattr(target, "sharding", target)  # of a format
    devices = lies.device_list.addressable_device_list if isinstance(lies, Sharding) else ()
    return [device.client for device in devices[:1]]
