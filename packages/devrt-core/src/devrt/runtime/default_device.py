"""Which device the option ``default_device`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devrt.contract import Device
from devrt.errors import ConfigError

if TYPE_CHECKING:
    from devrt.runtime.runtime import Runtime

__all__ = ["choose_device"]


def choose_device(runtime: Runtime, configured: object) -> Device:
    """Return the device that a value of the option stands for; None for the first one.

    Raises `ConfigError` if it is no device or platform.
    """
    if configured is None:
        return runtime.get_backend().local_devices()[0]
    if isinstance(configured, Device):
        return configured
    if isinstance(configured, str):
        return _device_named(runtime, configured)
    msg = f"option 'default_device' takes a device or a platform's name, not {configured!r}."
    raise ConfigError(msg, option="default_device", value=configured)


def _device_named(runtime: Runtime, name: str) -> Device:
    """Return a platform's first device, or the one that is shown by a name, ``cpu:3``."""
    platform, _, number = name.rpartition(":")
    if not platform or not number.isdecimal():
        return runtime.get_backend(name).local_devices()[0]
    devices = runtime.get_backend(platform).local_devices()
    for device in devices:
        if device.id == int(number):
            return device
    there = ", ".join(map(str, devices))
    msg = f"option 'default_device' names {name!r}, and {platform} has {there}."
    raise ConfigError(msg, option="default_device", value=name)
