"""Descriptions of devices that need not be present."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devrt.contract._device import Device

__all__ = ["Topology"]


class Topology(abc.ABC):
    """A description of a platform's devices, against which programs compile ahead of time.

    Attributes
    ----------
    platform : str
        The platform described.
    platform_version : str
        The runtime that would drive the devices.
    """

    @property
    @abc.abstractmethod
    def platform(self) -> str: ...

    @property
    @abc.abstractmethod
    def platform_version(self) -> str: ...

    @abc.abstractmethod
    def get_attributes(self) -> Mapping[str, Any]:
        """Return what the platform says of the topology beyond its devices."""

    @abc.abstractmethod
    def serialize(self) -> bytes:
        """Return bytes from which the same platform can rebuild the topology."""

    @abc.abstractmethod
    def _make_compile_only_devices(self) -> list[Device]:
        """Return devices that meshes and shardings accept and that can hold no buffer."""
