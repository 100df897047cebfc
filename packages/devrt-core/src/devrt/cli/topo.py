"""What ``devrt topo`` shows: how the devices of a machine are connected, and what they are near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devrt import hardware
from devrt.cli import report
from devrt.cli.report import reported
from devrt.cli.tables import Output
from devrt.contract import Client, Device
from devrt.hardware import DeviceLink
from devrt.records import ClientFactory

__all__ = ["show", "topology"]

_LEGEND = {
    "X": "the device itself",
    "SYS": "PCI, and what connects NUMA nodes",
    "NODE": "PCI, and what connects the host bridges of one NUMA node",
    "PHB": "PCI, and a host bridge, typically the processor",
    "PXB": "several PCI bridges, and no host bridge",
    "PIX": "at most one PCI bridge",
    "NV": "NVLinks, and how many",
    "XGMI": "links between GPUs over XGMI",
    "SIM": "the simulator gives the two access to each other",
    "?": "nobody says",
}

_NONE = "N/A"  # as GPU tools write it


def topology(platform: str | None = None) -> dict[str, Any]:
    """Return the devices of each usable backend that are attached here, and their connections.

    Keys: ``platforms`` (list of ``platform``, ``platform_version``, ``devices``, ``matrix``, whose
    rows and columns are the devices, ``elsewhere``, how many devices other processes have, and
    ``problem``, why links are not known, or null) and ``failures`` (as `devrt.cli.report.devices`).
    """
    found = report.usable(platform)
    each = zip(found.clients, found.factories, strict=True)
    return {"platforms": [_platform(*pair) for pair in each], "failures": found.failures}


def _platform(client: Client, factory: ClientFactory) -> dict[str, Any]:
    devices = client.local_devices()
    links, problem = _links(factory, devices)
    nodes = dict(reported("readings", _memory_nodes, factory, devices)[0])
    return {
        "platform": client.platform,
        "platform_version": client.platform_version,
        "devices": [_device(device, nodes.get(device.id)) for device in devices],
        "matrix": [[_connection(a, b, links) for b in devices] for a in devices],
        "elsewhere": client.device_count() - len(devices),
        "problem": problem,
    }


def _links(
    factory: ClientFactory, devices: Sequence[Device]
) -> tuple[dict[frozenset[int], DeviceLink], str | None]:
    """Return the plugin's links by pairs of ids, and why there are none where that failed."""
    found, problem = reported("links", _by_pair, factory, devices)
    return dict(found), problem or None


def _by_pair(
    factory: ClientFactory, devices: Sequence[Device]
) -> list[tuple[frozenset[int], DeviceLink]]:
    return [(frozenset((link.first, link.second)), link) for link in factory.links(devices)]


def _memory_nodes(
    factory: ClientFactory, devices: Sequence[Device]
) -> list[tuple[int, int | None]]:
    return [(each.device, each.memory_numa_node) for each in factory.readings(devices)]


def _device(device: Device, memory_node: int | None) -> dict[str, Any]:
    node = device.attributes.get("numa_node")
    address = device.attributes.get("pci_bus_id")
    if not isinstance(node, int) or node < 0:  # the kernel says -1 where there is one node
        node = None
    near = hardware.pci_cpus(str(address)) if node is None else hardware.numa_cpus(node)
    return {
        "id": device.id,
        "kind": device.device_kind,
        "pci_bus_id": address,
        "numa_node": node,
        "memory_numa_node": memory_node,
        "cpus": near,
    }


def _connection(a: Device, b: Device, links: Mapping[frozenset[int], DeviceLink]) -> str:
    if a is b:
        return "X"
    if link := links.get(frozenset((a.id, b.id))):
        return f"{link.kind}{link.count or ''}"
    first, second = (device.attributes.get("pci_bus_id") for device in (a, b))
    if not first or not second:
        return "?"
    return hardware.pci_connection(str(first), str(second)) or "?"


def show(found: Mapping[str, Any]) -> None:
    """Print what `topology` returned: a matrix for each platform, and what its words mean."""
    out = Output()
    used: set[str] = set()
    for number, each in enumerate(found["platforms"]):
        if number:
            out.line()
        _show_platform(out, each)
        used |= {cell.rstrip("0123456789") for row in each["matrix"] for cell in row}
    out.line()
    out.line("legend", "bold")
    for word, meaning in _LEGEND.items():
        if word in used:
            out.line(f"  {word + '#' if word == 'NV' else word:<5} {meaning}")
    for failure in found["failures"]:
        Output(stderr=True).line(f"devrt: {failure['type']}: {failure['message']}", "red")


def _show_platform(out: Output, each: Mapping[str, Any]) -> None:
    names = [f"{each['platform']}:{device['id']}" for device in each["devices"]]
    kinds = ", ".join(dict.fromkeys(device["kind"] for device in each["devices"]))
    out.line(f"{each['platform']}: {kinds}")
    rows = [
        [
            name,
            *cells,
            device["cpus"] or _NONE,
            _number(device["numa_node"]),
            _number(device["memory_numa_node"]),
        ]
        for name, cells, device in zip(names, each["matrix"], each["devices"], strict=True)
    ]
    out.table(["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"], rows)
    if each["elsewhere"]:
        out.line(f"and {each['elsewhere']} devices of other processes")
    if each["problem"]:
        out.line(f"links are as PCI shows them: {each['problem']}", "yellow")


def _number(value: object) -> str:
    return _NONE if value is None else str(value)
