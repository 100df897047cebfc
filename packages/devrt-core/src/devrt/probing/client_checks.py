"""What a client must be before anybody uses it: checked once, when it was made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.contract import Client, Device, Memory
from devrt.contract.incomplete import incomplete_classes
from devrt.plugins.discovery.refs import PluginRef

__all__ = ["problem_of"]


def problem_of(ref: PluginRef, client: Any) -> str:
    """Return in what a client that a factory returned breaks the contract; empty if in nothing."""
    if client is None:
        return "its factory returned None"
    if not isinstance(client, Client):
        return f"its factory returned {type(client).__name__}, which is no devrt.contract.Client"
    if client.platform != ref.platform:
        return (
            f"the platform of its client is {client.platform!r}, and its record says "
            f"{ref.platform!r}; the two must be the same"
        )
    devices = client.devices()
    return (
        _of_devices(devices)
        or _of_members(client, devices)
        or _of_client(client, devices)
        or _of_classes(ref)
    )


def _of_devices(devices: Sequence[Any]) -> str:
    if not devices:
        return "its client has no devices"
    for device in devices:
        if not isinstance(device, Device):
            return (
                f"one of its devices is of type {type(device).__name__}, no devrt.contract.Device"
            )
    return ""


def _of_members(client: Client, devices: Sequence[Any]) -> str:
    known: set[Any] = set()
    for device in devices:
        if not isinstance(device.id, int):
            return f"the id of one of its devices is {device.id!r}, no integer"
        if device.id in known:
            return f"two of its devices have the id {device.id}"
        known.add(device.id)
        if device.platform != client.platform:
            return (
                f"the platform of its device {device.id} is {device.platform!r}, and that of the "
                f"client {client.platform!r}; the two must be the same"
            )
        if not isinstance(device.device_kind, str):
            return f"the device_kind of its device {device.id} is {device.device_kind!r}, no text"
    return ""


def _of_client(client: Client, devices: Sequence[Device]) -> str:
    again = client.devices()
    if len(again) != len(devices) or any(a is not b for a, b in zip(again, devices, strict=True)):
        return (
            "its devices are other objects each time: there must be one for each, always the same"
        )
    known = {id(device) for device in devices}
    if not all(id(device) in known for device in client.local_devices()):
        return "one of its local_devices() is none of its devices()"
    for device in client.local_devices():
        if not isinstance(device.default_memory(), Memory):
            return f"the default memory of its device {device.id} is no devrt.contract.Memory"
    if client.device_count() != len(devices):
        return f"device_count() is {client.device_count()}, and devices() has {len(devices)}"
    return ""


def _of_classes(ref: PluginRef) -> str:
    """Return what is wrong with classes that a client needs later, such as its buffers'."""
    incomplete = incomplete_classes(ref.module)
    return f"of its classes, {incomplete}" if incomplete else ""
