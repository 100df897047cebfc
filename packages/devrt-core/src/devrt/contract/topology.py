"""Descriptions of devices that need not be present."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.contract.members import Contract

if TYPE_CHECKING:
    from devrt.contract.device import Device
    from devrt.contract.executable import Executable

__all__ = ["Topology"]


class Topology(metaclass=Contract):
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

    def fingerprint(self) -> int:
        """Return 64 bits that are equal for equal topologies, on every machine."""
        import hashlib

        return int.from_bytes(hashlib.sha256(self.serialize()).digest()[:8], "big")

    def compile(self, program: str | bytes, **options: Any) -> Executable:
        """Compile a program for devices that need not be there.

        Raises
        ------
        UnimplementedError
            If the platform compiles nothing without its devices.
        """
        from devrt.errors import UnimplementedError

        msg = f"platform {self.platform!r} describes devices, and compiles nothing for them."
        raise UnimplementedError(msg, operation="compile", platform=self.platform)

    @abc.abstractmethod
    def _make_compile_only_devices(self) -> list[Device]:
        """Return devices that meshes and shardings accept and that can hold no buffer."""
