"""What ``devrt top`` shows: each device's memory, by kind and by process, and how busy it is."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from devrt._support.words import words
from devrt.cli import report
from devrt.cli.tables import Output, human_bytes, plain
from devrt.contract import Client, Device
from devrt.errors import DevrtError
from devrt.hardware import DeviceReading
from devrt.records import ClientFactory

__all__ = ["snapshot", "watch"]


def snapshot(found: report.Found) -> dict[str, Any]:
    """Return what the local devices of some backends do now.

    Keys: ``devices`` (list of ``platform``, ``id``, ``kind``, ``memory``, which is what this
    process's client has in use by kind of memory, ``used`` and ``total`` bytes over all processes,
    ``utilization``, ``temperature``, ``power`` and ``processes``; null is what nobody reports) and
    ``problems`` (by platform, why its vendor's library reports nothing).
    """
    devices: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    for client, factory in zip(found.clients, found.factories, strict=True):
        readings, problem = _readings(client, factory)
        devices += [_device(device, readings) for device in client.local_devices()]
        if problem:
            problems[client.platform] = problem
    return {"devices": devices, "problems": problems}


def _readings(client: Client, factory: ClientFactory) -> tuple[dict[int, DeviceReading], str]:
    try:
        return {each.device: each for each in factory.readings(client.local_devices())}, ""
    except DevrtError as error:
        return {}, error.message
    except Exception as error:  # noqa: BLE001  plugin code: the rest can be shown
        return {}, f"its readings raised {type(error).__name__}: {words(error)}"


def _device(device: Device, readings: Mapping[int, DeviceReading]) -> dict[str, Any]:
    reading = readings.get(device.id, DeviceReading(device.id))
    stats = device.memory_stats() or {}
    kind = device.default_memory().kind
    total = reading.memory_total
    return {
        "platform": device.platform,
        "id": device.id,
        "kind": device.device_kind,
        "memory": {kind: stats.get("bytes_in_use")},
        "used": reading.memory_used,
        "total": stats.get("bytes_limit") if total is None else total,
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
    found = report.usable(platform)
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
    rows = [
        [
            f"{row['platform']}:{row['id']}",
            row["kind"],
            human_bytes(row["used"]),
            human_bytes(row["total"]),
            _with_unit(row["utilization"], "%"),
            _with_unit(row["temperature"], " C"),
            _with_unit(row["power"], " W"),
            _processes(row["processes"]),
        ]
        for row in snap["devices"]
    ]
    headings = ("device", "kind", "used", "total", "busy", "temperature", "power", "processes")
    out.table(headings, rows)
    for platform, problem in snap["problems"].items():
        out.line(f"{platform}: {problem}", "yellow")


def _with_unit(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.0f}{unit}"


def _processes(found: Sequence[Mapping[str, Any]]) -> str:
    each = (f"{p['pid']} {p['name']} {human_bytes(p['bytes'])}".replace("  ", " ") for p in found)
    return ", ".join(each) or "-"
