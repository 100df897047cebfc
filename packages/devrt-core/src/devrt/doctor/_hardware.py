"""Accelerators that the machine shows, whether or not a plugin is installed for them.

What they look like is data (``data/hardware.toml``); nothing is opened, only files are looked at.
"""

from __future__ import annotations

import dataclasses
import functools
import tomllib
from collections.abc import Collection, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from devrt.doctor._findings import Finding
from devrt.hardware import pci_devices
from devrt.plugins._known import install_command

__all__ = ["SeenHardware", "hardware_findings", "known_hardware", "seen_hardware"]


@dataclasses.dataclass(frozen=True, slots=True)
class SeenHardware:
    """A kind of hardware that is on the machine.

    Attributes
    ----------
    name : str
        What it is called.
    platforms : tuple of str
        The platforms that serve it.
    wheel : str
        The distribution to install for it.
    evidence : tuple of str
        PCI addresses and files that show it.
    driver : str
        The first line of its driver's version; empty where it has none.
    """

    name: str
    platforms: tuple[str, ...]
    wheel: str
    evidence: tuple[str, ...]
    driver: str = ""


@functools.cache
def known_hardware() -> Mapping[str, Any]:
    """Return the table of hardware and variables that is part of this package."""
    text = resources.files("devrt.doctor").joinpath("data/hardware.toml").read_text("utf-8")
    return tomllib.loads(text)


def seen_hardware(root: Path = Path("/")) -> tuple[SeenHardware, ...]:
    """Return the accelerators that the machine shows.

    Parameters
    ----------
    root
        The folder that counts as the root of the file system.
    """
    found = []
    for entry in known_hardware()["hardware"]:
        evidence = tuple(_evidence(entry, root))
        if evidence:
            found.append(
                SeenHardware(
                    entry["name"],
                    tuple(entry["platforms"]),
                    entry["wheel"],
                    evidence,
                    _driver(entry, root),
                )
            )
    return tuple(found)


def _evidence(entry: Mapping[str, Any], root: Path) -> Iterator[str]:
    if "pci_vendor" in entry:
        for device in pci_devices(entry["pci_vendor"], root=root):
            if "pci_classes" in entry and device.class_code >> 16 not in entry["pci_classes"]:
                continue
            if "pci_models" in entry and device.device not in entry["pci_models"]:
                continue
            yield f"PCI {device.address} ({device.vendor:04x}:{device.device:04x})"
    for pattern in entry["paths"]:
        try:
            paths = sorted(root.glob(pattern))
        except OSError:
            continue
        yield from (f"/{path.relative_to(root)}" for path in paths[:8])


def _driver(entry: Mapping[str, Any], root: Path) -> str:
    for name in entry["drivers"]:
        try:
            text = (root / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        return str(text.strip().partition("\n")[0][:200])
    return ""


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
                install_command(hardware.wheel),
            )
