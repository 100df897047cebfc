"""What ``devrt top`` shows: each device's memory, by kind and by process, and how busy it is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from devrt.cli import report
from devrt.cli.report import reported
from devrt.cli.tables import Output, human_bytes, plain
from devrt.contract import Device
from devrt.errors import DevrtError
from devrt.hardware import DeviceReading
from devrt.records import ClientFactory

__all__ = ["Sources", "snapshot", "sources", "watch"]


class Sources(NamedTuple):
    """Who tells of devices: vendors' libraries of the machine's, and clients of all others."""

    machines: dict[str, ClientFactory]
    clients: report.Found


def sources(platform: str | None = None) -> Sources:
    """Return who tells of a platform's devices, or of all; clients are made where nobody else does.

    Raises
    ------
    SelectionError, BackendInitializationError
        If there are no devices to tell of.
    """
    machines = {
        name: factory
        for name, factory in report.reporters(platform)
        if reported("machine", factory.machine)[0]
    }
    nobody = report.Found([], [], [], [])
    if machines and platform is not None:
        return Sources(machines, nobody)
    try:
        return Sources(machines, report.usable(platform, but=machines))
    except DevrtError:
        if not machines:
            raise
        return Sources(machines, nobody)


def snapshot(found: Sources) -> dict[str, Any]:
    """Return what the devices do now.

    Keys: ``devices`` (list of ``platform``, ``id``, ``kind``, ``pci_bus_id``, ``client``, which is
    the backend of this process that uses it, ``memory``, what that has in use by kind of memory,
    ``used`` and ``total`` bytes over all processes, ``utilization``, ``temperature``, ``power`` and
    ``processes``; null is what nobody reports) and ``problems`` (by platform, why its vendor's
    library reports nothing).
    """
    devices: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    for platform, factory in found.machines.items():
        rows, problem = reported("machine", _of_machine, platform, factory)
        devices += rows
        problems |= {platform: problem} if problem else {}
    each = zip(found.clients.clients, found.clients.factories, found.clients.names, strict=True)
    for client, factory, name in each:
        local = client.local_devices()
        readings, problem = reported("readings", _by_device, factory, local)
        devices += [_of_client(device, name, dict(readings)) for device in local]
        problems |= {client.platform: problem} if problem else {}
    return {"devices": devices, "problems": problems}


def _of_machine(platform: str, factory: ClientFactory) -> list[dict[str, Any]]:
    return [
        {
            "platform": platform,
            "id": reading.device,
            "kind": plain(reading.kind),
            "pci_bus_id": reading.pci_bus_id or None,
            "client": None,
            "memory": {},
            **_use(reading),
        }
        for reading in factory.machine()
    ]


def _by_device(
    factory: ClientFactory, devices: Sequence[Device]
) -> list[tuple[int, DeviceReading]]:
    return [(reading.device, reading) for reading in factory.readings(devices)]


def _of_client(device: Device, name: str, readings: Mapping[int, DeviceReading]) -> dict[str, Any]:
    use = _use(readings.get(device.id, DeviceReading(device.id)))
    if use["total"] is None:
        use["total"] = (device.memory_stats() or {}).get("bytes_limit")
    return {
        "platform": device.platform,
        "id": device.id,
        "kind": device.device_kind,
        "pci_bus_id": device.attributes.get("pci_bus_id"),
        "client": name,
        "memory": _by_kind(device),
        **use,
    }


def _by_kind(device: Device) -> dict[str, int | None]:
    """Return what this process's client has in use of each kind of memory."""
    stats = {memory.kind: memory.memory_stats() for memory in device.addressable_memories()}
    # A client that counts one of its memories only tells of it as the device's.
    stats[device.default_memory().kind] = device.memory_stats()
    return {kind: (each or {}).get("bytes_in_use") for kind, each in stats.items()}


def _use(reading: DeviceReading) -> dict[str, Any]:
    return {
        "used": reading.memory_used,
        "total": reading.memory_total,
        "utilization": reading.utilization,
        "temperature": reading.temperature,
        "power": reading.power,
        "processes": [
            {"pid": each.pid, "name": _name(each.pid), "bytes": each.bytes}
            for each in reading.processes
        ],
    }


def _name(pid: int) -> str:
    try:  # of another container: the number is of another namespace, and may be none here
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return plain(name.strip())


def watch(platform: str | None, interval: float, count: int | None) -> None:
    """Show the devices again every ``interval`` seconds, ``count`` times or until interrupted."""
    found = sources(platform)
    shown = 0
    try:
        while True:
            snap = snapshot(found)
            click.clear()  # nothing where the output is no terminal
            _show(snap)
            shown += 1
            if count is not None and shown >= count:
                return
            time.sleep(interval)
    except KeyboardInterrupt:
        return  # how one leaves


def _show(snap: Mapping[str, Any]) -> None:
    out = Output()
    headings = ("device", "used", "total", "busy", "temperature", "power", "kind")
    out.table(headings, [_device_cells(row) for row in snap["devices"]])
    memories = [_memory_cells(row) for row in snap["devices"] if row["client"]]
    _section(out, ("device", "client", "in use by this process"), memories)
    processes = [cells for row in snap["devices"] for cells in _process_cells(row)]
    _section(out, ("device", "process", "in use", "name"), processes)
    for platform, problem in snap["problems"].items():
        out.line(f"{platform}: {problem}", "yellow")


def _section(out: Output, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if rows:
        out.line()
        out.table(headings, rows)


def _device_cells(row: Mapping[str, Any]) -> list[str]:
    return [
        _label(row),
        human_bytes(row["used"]),
        human_bytes(row["total"]),
        _with_unit(row["utilization"], "%"),
        _with_unit(row["temperature"], " C"),
        _with_unit(row["power"], " W"),
        row["kind"],
    ]


def _memory_cells(row: Mapping[str, Any]) -> list[str]:
    used = (f"{kind} {human_bytes(size)}" for kind, size in row["memory"].items())
    return [_label(row), row["client"], ", ".join(used)]


def _process_cells(row: Mapping[str, Any]) -> list[list[str]]:
    return [
        [_label(row), str(each["pid"]), human_bytes(each["bytes"]), each["name"] or "-"]
        for each in row["processes"]
    ]


def _label(row: Mapping[str, Any]) -> str:
    return f"{row['platform']}:{row['id']}"


def _with_unit(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"
