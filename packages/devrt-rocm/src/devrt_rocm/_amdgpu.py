"""What the kernel's driver for AMD's GPUs (amdgpu) shows in sysfs of what they do now.

The files are those of the kernel's own documentation of amdgpu (``gpu_busy_percent``,
``mem_info_vram_*``, ``product_name``, the sensors of hwmon); KFD lists who computes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devrt.hardware import DeviceProcess, DeviceReading
from devrt_rocm._kfd import gpu_ids, numbered

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["machine", "readings"]

_CARDS = "sys/class/drm"
_PROCESSES = "sys/class/kfd/kfd/proc"
_AMD = "0x1002"


def machine(root: Path = Path("/")) -> list[DeviceReading]:
    """Return what all GPUs of the machine do now, numbered by their PCI addresses.

    ``root`` counts as the root of the file system.
    """
    found = sorted(_by_address(root).items())
    ids = gpu_ids(root)
    return [
        _reading(number, address, folder, _processes(root, ids.get(address)))
        for number, (address, folder) in enumerate(found)
    ]


def readings(devices: Sequence[Device], root: Path = Path("/")) -> list[DeviceReading]:
    """Return what each device does now, over all processes, as far as the kernel shows it."""
    found, ids = _by_address(root), gpu_ids(root)
    addresses = ((d.id, str(d.attributes.get("pci_bus_id"))) for d in devices)
    return [
        _reading(number, address, found[address], _processes(root, ids.get(address)))
        for number, address in addresses
        if address in found
    ]


def _by_address(root: Path) -> dict[str, Path]:
    """Return the folders of GPUs by their PCI addresses; a display's connector is none."""
    folders = [card / "device" for card in (root / _CARDS).glob("card*[0-9]")]
    return {
        folder.resolve().name: folder
        for folder in folders
        if _read(folder / "vendor") == _AMD and (folder / "mem_info_vram_total").exists()
    }


def _reading(
    number: int, address: str, folder: Path, processes: tuple[DeviceProcess, ...]
) -> DeviceReading:
    millidegrees = _sensor(folder, "temp1_input")
    microwatts = _sensor(folder, "power1_average", "power1_input")
    return DeviceReading(
        number,
        memory_used=_number(folder / "mem_info_vram_used"),
        memory_total=_number(folder / "mem_info_vram_total"),
        utilization=_number(folder / "gpu_busy_percent"),
        temperature=None if millidegrees is None else millidegrees // 1000,
        power=None if microwatts is None else microwatts / 1e6,
        processes=processes,
        kind=_read(folder / "product_name") or f"AMD GPU {_read(folder / 'device')}",
        pci_bus_id=address,
    )


def _sensor(folder: Path, *names: str) -> int | None:
    """Return the first of these files that has a number; the kernel numbers the sensors' folder."""
    paths = (path for name in names for path in sorted(folder.glob(f"hwmon/hwmon*/{name}")))
    return next((value for value in map(_number, paths) if value is not None), None)


def _processes(root: Path, gpu: int | None) -> tuple[DeviceProcess, ...]:
    """Return who holds memory of a GPU, which KFD knows by a number of its own."""
    if gpu is None:
        return ()
    each = ((int(p.name), _number(p / f"vram_{gpu}")) for p in numbered(root / _PROCESSES))
    return tuple(DeviceProcess(pid, size) for pid, size in sorted(each) if size)


def _number(path: Path) -> int | None:
    text = _read(path)
    return int(text) if text.isdecimal() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # a device that sleeps or is gone answers no question
        return ""
