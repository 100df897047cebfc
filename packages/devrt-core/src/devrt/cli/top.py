"""What ``devrt top`` shows: how busy devices are, and their memory by process, client and kind."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import click

from devrt.cli import report
from devrt.cli.report import reported
from devrt.cli.shown_clients import process_name, shown_clients
from devrt.cli.tables import Output, human_bytes, plain
from devrt.contract import Device
from devrt.errors import DevrtError
from devrt.hardware import DeviceReading
from devrt.records import ClientFactory
from devrt.runtime.memory_server import memory_by_kind

__all__ = ["Sources", "snapshot", "sources", "watch"]


class Sources(NamedTuple):
    """Who tells of devices: vendors' libraries of the machine's, and clients of all others.

    ``platforms`` are those that were requested, by their own names; None is for all.
    """

    machines: dict[str, ClientFactory]
    clients: report.Found
    platforms: frozenset[str] | None = None


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
        return Sources(machines, nobody, frozenset(machines))
    try:
        usable = report.usable(platform, but=machines)
    except DevrtError:
        if not machines:
            raise
        return Sources(machines, nobody)
    names = frozenset(client.platform for client in usable.clients)
    return Sources(machines, usable, None if platform is None else names)


def snapshot(found: Sources) -> dict[str, Any]:
    """Return what the devices do now.

    Keys: ``devices`` (list of ``platform``, ``id``, ``kind``, ``pci_bus_id``, ``client``, which is
    the backend of this process that uses it, ``memory``, what that has in use by kind of memory,
    ``used`` and ``total`` bytes over all processes, ``utilization``, ``temperature``, ``power`` and
    ``processes``; null is what nobody reports), ``clients`` (the rows of `shown_clients` for other
    processes, with ``device``, the number among ``devices`` of the one that is meant, or null) and
    ``problems`` (by platform, why its vendor's library reports nothing, and by process).
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
    shown = shown_clients()
    clients = [
        {**row, "device": _device_of(row, devices)}
        for row in shown.rows
        if found.platforms is None or row["platform"] in found.platforms
    ]
    return {"devices": devices, "clients": clients, "problems": problems | shown.problems}


def _device_of(row: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> int | None:
    """Return a device's number on this machine: its process may see fewer, and count those."""
    where = (row["platform"], row["pci_bus_id"])
    found = (each["id"] for each in devices if (each["platform"], each["pci_bus_id"]) == where)
    return None if where[1] is None else next(found, None)


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
        "memory": memory_by_kind(device),
        **use,
    }


def _use(reading: DeviceReading) -> dict[str, Any]:
    return {
        "used": reading.memory_used,
        "total": reading.memory_total,
        "utilization": reading.utilization,
        "temperature": reading.temperature,
        "power": reading.power,
        "processes": [
            {"pid": each.pid, "name": process_name(each.pid), "bytes": each.bytes}
            for each in reading.processes
        ],
    }


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
    clients = [_client_cells(row) for row in snap["clients"]]
    _section(out, ("device", "process", "client", "in use by kind", "name"), clients)
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
    return [_label(row), row["client"], _kinds(row)]


def _client_cells(row: Mapping[str, Any]) -> list[str]:
    # What is no device of the list above has its process's number, and says what it is.
    is_listed = row["device"] is not None
    label = f"{row['platform']}:{row['device']}" if is_listed else f"{_label(row)} {row['kind']}"
    return [label, str(row["pid"]), row["client"], _kinds(row), row["name"] or "-"]


def _kinds(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{kind} {human_bytes(size)}" for kind, size in row["memory"].items())


def _process_cells(row: Mapping[str, Any]) -> list[list[str]]:
    return [
        [_label(row), str(each["pid"]), human_bytes(each["bytes"]), each["name"] or "-"]
        for each in row["processes"]
    ]


def _label(row: Mapping[str, Any]) -> str:
    return f"{row['platform']}:{row['id']}"


def _with_unit(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"
