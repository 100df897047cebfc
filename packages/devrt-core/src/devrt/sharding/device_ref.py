"""Devices in pickles: named by platform and id, and found again where they exist."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from devrt.errors import DevrtError, InvalidArgumentError

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["DeviceRef", "find_devices", "refer_to_devices"]


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceRef:
    """A device's platform and id."""

    platform: str
    id: int

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


def refer_to_devices(devices: Iterable[Device]) -> list[Any]:
    """Return what stands for each device in a pickle: the device where it pickles by itself."""
    return [
        device
        if type(device).__reduce__ is not object.__reduce__
        else DeviceRef(device.platform, device.id)
        for device in devices
    ]


def find_devices(references: Iterable[Any]) -> list[Device]:
    """Return the default runtime's devices that references stand for.

    The `InvalidArgumentError` says which does not exist here, and what there is.
    """
    return [_find(r) if isinstance(r, DeviceRef) else r for r in references]


def _find(reference: DeviceRef) -> Device:
    from devrt import runtime  # not at the top: shardings of given devices need no runtime

    try:
        devices = runtime.devices(reference.platform)
    except DevrtError as error:
        msg = (
            f"what is being unpickled was on {reference}, and the platform "
            f"{reference.platform!r} cannot be used here: {error}"
        )
        raise InvalidArgumentError(msg, device=str(reference)) from error
    for device in devices:
        if device.id == reference.id:
            return device
    msg = (
        f"what is being unpickled was on {reference}, and there are {len(devices)} "
        f"{reference.platform} devices here. Make as many available, or pickle "
        "devrt.device_get(x) instead of x."
    )
    raise InvalidArgumentError(msg, device=str(reference), available=len(devices))
