"""What the doctor finds in the accelerators that the machine shows."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from devrt.doctor.findings import Finding
from devrt.plugins.discovery.accelerators import SeenHardware, seen_hardware
from devrt.plugins.discovery.known import command_for

__all__ = ["SeenHardware", "hardware_findings", "seen_hardware"]


def hardware_findings(
    seen: Collection[SeenHardware], platforms: Collection[str]
) -> Iterator[Finding]:
    """Yield a finding for hardware that no installed plugin is for."""
    for hardware in seen:
        if not set(hardware.platforms) & set(platforms):
            yield Finding(
                "hardware-without-backend",
                hardware.name,
                f"{hardware.name} is on this machine ({', '.join(hardware.evidence[:3])}), and no "
                f"installed backend serves it.",
                f"Install {hardware.wheel}.",
                command_for(hardware.wheel),
            )
