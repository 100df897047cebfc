"""What ``devrt topo`` shows: how the devices of a machine are connected, and what they are near."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devrt import hardware
from devrt._support.words import words
from devrt.cli import report
from devrt.cli.tables import Output
from devrt.contract import Client, Device
from devrt.errors import DevrtError
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
    return {
        "platform": client.platform,
        "platform_version": client.platform_version,
        "devices": [_device(device) for device in devices],
        "matrix": [[_connection(a, b, links) for b in devices] for a in devices],
        "elsewhere": client.device_count() - len(devices),
        "problem": problem,
    }


def _links(
    factory: ClientFactory, devices: Sequence[Device]
) -> tuple[dict[frozenset[int], DeviceLink], str | None]:
    """Return the plugin's links by pairs of ids, and why there are none where that failed."""
    try:
        found: Iterable[DeviceLink] = list(factory.links(devices))
        return {frozenset((link.first, link.second)): link for link in found}, None
    except DevrtError as error:
        return {}, error.message
    except Exception as error:  # noqa: BLE001  plugin code: the rest can be shown
        return {}, f"its links raised {type(error).__name__}: {words(error)}"


def _device(device: Device) -> dict[str, Any]:
    node = device.attributes.get("numa_node")
    return {
        "id": device.id,
        "kind": device.device_kind,
        "pci_bus_id": device.attributes.get("pci_bus_id"),
        "numa_node": node,
        "cpus": hardware.numa_cpus(node) if isinstance(node, int) else "",
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
        [name, *cells, device["cpus"] or "-", _or_dash(device["numa_node"])]
        for name, cells, device in zip(names, each["matrix"], each["devices"], strict=True)
    ]
    out.table(["", *names, "CPU affinity", "NUMA"], rows)
    if each["elsewhere"]:
        out.line(f"and {each['elsewhere']} devices of other processes")
    if each["problem"]:
        out.line(f"links are as PCI shows them: {each['problem']}", "yellow")


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)
