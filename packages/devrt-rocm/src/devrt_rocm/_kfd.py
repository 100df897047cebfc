"""What the kernel's driver for AMD's GPUs (KFD) shows in sysfs of the links between them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from devrt.hardware import DeviceLink

if TYPE_CHECKING:
    from devrt.contract import Device

__all__ = ["gpu_ids", "numbered", "xgmi_links"]

_NODES = "sys/class/kfd/kfd/topology/nodes"
_XGMI = 11  # CRAT_IOLINK_TYPE_XGMI of the kernel's kfd_crat.h; PCI Express is 2


def xgmi_links(devices: Sequence[Device], root: Path = Path("/")) -> list[DeviceLink]:
    """Return the pairs of devices that XGMI connects.

    ``root`` counts as the root of the file system. Of links over PCI nothing is returned: the PCI
    bus itself tells more of them.
    """
    folder = root / _NODES
    nodes = {_pci_address(node): node.name for node in numbered(folder)}
    joined = {
        (link.get("node_from"), link.get("node_to"))
        for node in numbered(folder)
        for link in map(_properties, numbered(node / "io_links"))
        if link.get("type") == _XGMI
    }
    found = []
    for first, second in combinations(devices, 2):
        ends = [nodes.get(str(device.attributes.get("pci_bus_id"))) for device in (first, second)]
        if None in ends:
            continue
        one, other = (int(str(end)) for end in ends)
        if (one, other) in joined or (other, one) in joined:
            found.append(DeviceLink(first.id, second.id, "XGMI"))
    return found


def gpu_ids(root: Path = Path("/")) -> dict[str, int]:
    """Return KFD's own numbers of GPUs, by their PCI addresses."""
    found = {}
    for node in numbered(root / _NODES):
        with contextlib.suppress(OSError, ValueError):  # of another container's device
            found[_pci_address(node)] = int((node / "gpu_id").read_text(encoding="ascii"))
    return {address: number for address, number in found.items() if address}


def numbered(folder: Path) -> list[Path]:
    """Return the folders inside that have a number for a name."""
    return sorted(p for p in folder.glob("[0-9]*") if p.is_dir())


def _properties(folder: Path) -> dict[str, int]:
    """Return a node's or a link's numbers by name; a line that is no such pair is left out."""
    try:
        text = (folder / "properties").read_text(encoding="ascii", errors="replace")
    except OSError:  # of another container's device
        return {}
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdecimal()}


def _pci_address(node: Path) -> str:
    """Return the PCI address of a node's device; that of a node for processors is in no use."""
    properties = _properties(node)
    if not properties.get("simd_count"):
        return ""
    where = properties.get("location_id", 0)  # bus, device and function in 8, 5 and 3 bits
    bus, device, function = where >> 8 & 0xFF, where >> 3 & 0x1F, where & 0x7
    return f"{properties.get('domain', 0):04x}:{bus:02x}:{device:02x}.{function}"
