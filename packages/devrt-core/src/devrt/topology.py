"""Descriptions of live devices, kept as bytes and turned into compile-only devices."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from devrt.contract import Client, Device, Memory, Topology
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError

__all__ = ["CompileOnlyDevice", "DeviceTopology", "describe_devices", "get_topology_for_devices"]

_FORMAT = "devrt-topology"
_VERSION = 1

_FIELDS = ("id", "process_index", "local_hardware_id", "device_kind")
_OPTIONAL = ("coords", "core_on_chip", "slice_index")
_TYPES: Mapping[str, type] = {
    "id": int,
    "process_index": int,
    "device_kind": str,
    "coords": list,
    "core_on_chip": int,
    "slice_index": int,
}


class DeviceTopology(Topology):
    """The devices of a platform as plain data: their numbers, kinds, processes and coordinates.

    Parameters
    ----------
    platform
        The platform of the devices.
    platform_version
        The runtime that drives them.
    devices
        For each device, the attributes that describe it.
    """

    def __init__(
        self, platform: str, platform_version: str, devices: Sequence[Mapping[str, Any]]
    ) -> None:
        self._platform = platform
        self._platform_version = platform_version
        self._devices = tuple(dict(device) for device in devices)

    @property
    def platform(self) -> str:
        """The platform of the devices."""
        return self._platform

    @property
    def platform_version(self) -> str:
        """The runtime that drives them."""
        return self._platform_version

    def get_attributes(self) -> Mapping[str, Any]:
        """Return the number of devices and of processes."""
        processes = {device["process_index"] for device in self._devices}
        return {"num_devices": len(self._devices), "num_processes": len(processes)}

    def serialize(self) -> bytes:
        """Return the topology as JSON, equal bytes for equal topologies."""
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "platform": self._platform,
            "platform_version": self._platform_version,
            "devices": self._devices,
        }
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def deserialize(cls, data: bytes) -> DeviceTopology:
        """Read what `serialize` wrote.

        Raises
        ------
        InvalidArgumentError
            If ``data`` is no topology, or one of a later version.
        """
        try:
            document = json.loads(data)
            if document["format"] != _FORMAT or document["version"] != _VERSION:
                raise ValueError(document["version"])
            return cls(
                _typed(document, "platform", str),
                _typed(document, "platform_version", str),
                [_device_fields(device) for device in _typed(document, "devices", list)],
            )
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            msg = (
                f"these bytes ({reprlib.repr(data)}) are no device topology of version {_VERSION} "
                f"({type(error).__name__}: {error}). Serialize it again with this devrt."
            )
            raise InvalidArgumentError(msg) from error

    def _make_compile_only_devices(self) -> list[Device]:
        return [CompileOnlyDevice(self._platform, fields) for fields in self._devices]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceTopology):
            return NotImplemented
        return self.serialize() == other.serialize()

    def __hash__(self) -> int:
        return hash(self.serialize())

    def __repr__(self) -> str:
        return f"DeviceTopology(platform={self._platform!r}, devices={len(self._devices)})"


class CompileOnlyDevice(Device):
    """A device that is only described: meshes and shardings take it, but it holds no buffer."""

    def __init__(self, platform: str, fields: Mapping[str, Any]) -> None:
        self._platform = platform
        self._fields = dict(fields)

    @property
    def id(self) -> int:
        """Number of the device, unique among all processes of the platform."""
        return int(self._fields["id"])

    @property
    def process_index(self) -> int:
        """The process that the device is attached to."""
        return int(self._fields["process_index"])

    @property
    def local_hardware_id(self) -> int | None:
        """The driver's number for the hardware."""
        return self._fields.get("local_hardware_id")

    @property
    def platform(self) -> str:
        """The platform described."""
        return self._platform

    @property
    def device_kind(self) -> str:
        """The hardware's model."""
        return str(self._fields["device_kind"])

    @property
    def attributes(self) -> Mapping[str, Any]:
        """What is known beyond the above, such as where it is."""
        return {name: value for name, value in self._fields.items() if name not in _FIELDS}

    @property
    def client(self) -> Client:
        """Not there: raises `UnimplementedError`."""
        self._refuse("client")

    def memory(self, kind: str) -> Memory:
        """Raise `UnimplementedError`: there is no memory."""
        self._refuse("memory")

    def default_memory(self) -> Memory:
        """Raise `UnimplementedError`: there is no memory."""
        self._refuse("default_memory")

    def addressable_memories(self) -> list[Memory]:
        """Return no memory."""
        return []

    def live_buffers(self) -> list[Any]:
        """Return no buffer."""
        return []

    def memory_stats(self) -> dict[str, int] | None:
        """Return no statistics."""
        return None

    def __repr__(self) -> str:
        return f"CompileOnlyDevice({self._platform}:{self.id})"

    def _refuse(self, operation: str) -> NoReturn:
        msg = (
            f"{self!r} is described, not present: it has no {operation}. "
            "Compile against it here and run on a machine that has it."
        )
        raise UnimplementedError(msg, operation=operation, device=repr(self))


def _typed(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields[name]
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name} is {reprlib.repr(value)}, not {kind.__name__}")
    return value


def _device_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Check what one device was described with; JSON has no tuples, coordinates are one."""
    checked = dict(fields)
    for name, kind in _TYPES.items():
        if name not in _OPTIONAL or name in checked:
            _typed(checked, name, kind)
    if checked["local_hardware_id"] is not None:
        _typed(checked, "local_hardware_id", int)
    if "coords" in checked:
        checked["coords"] = tuple(_typed({"coords": c}, "coords", int) for c in checked["coords"])
    return checked


def get_topology_for_devices(devices: Sequence[Device]) -> Topology:
    """Return a description of live devices.

    Parameters
    ----------
    devices
        Devices of one client; their order is kept.

    Raises
    ------
    InvalidArgumentError
        If there are none, one is given twice, or they belong to more than one client.
    InvalidTypeError
        If one is no device.
    """
    _check_devices(devices)
    if not devices:
        msg = "a topology needs at least one device; the list of devices is empty."
        raise InvalidArgumentError(msg)
    client = devices[0].client
    if any(device.client is not client for device in devices):
        names = ", ".join(sorted({device.platform for device in devices}))
        msg = f"the devices of a topology must belong to one client; these are of {names}."
        raise InvalidArgumentError(msg)
    # A platform's own description is what programs are compiled against.
    if list(devices) == client.devices():
        return client.topology()
    return describe_devices(devices)


def describe_devices(devices: Sequence[Device]) -> DeviceTopology:
    """Return a description of devices of one client by what they say of themselves.

    Parameters
    ----------
    devices
        At least one; their order is kept.
    """
    client = devices[0].client
    return DeviceTopology(
        client.platform, client.platform_version, [_described(device) for device in devices]
    )


def _check_devices(devices: Any) -> None:
    if isinstance(devices, str | bytes) or not isinstance(devices, Iterable):
        msg = (
            f"a topology is made of a sequence of devices, not of {devices!r}. Pass devrt.devices()"
            " or some of them."
        )
        raise InvalidTypeError(msg, devices=devices)
    met = set()
    for device in devices:
        if not isinstance(device, Device):
            msg = (
                f"a topology describes devices, but got {reprlib.repr(device)} of type "
                f"{type(device).__name__}. Choose from devrt.devices()."
            )
            raise InvalidTypeError(msg, device=device)
        if device in met:
            msg = f"{device} is given twice; a topology has each device once."
            raise InvalidArgumentError(msg, device=str(device))
        met.add(device)


def _described(device: Device) -> dict[str, Any]:
    fields = {name: getattr(device, name) for name in _FIELDS}
    return fields | {name: getattr(device, name) for name in _OPTIONAL if hasattr(device, name)}
