"""The main job on real data: discover, shard, move, gather, check, measure."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from rich.text import Text

import devrt
from devrt.cli import report as _report
from devrt.cli import tables
from devrt.cli.demo_input import Input, load
from devrt.contract import Device
from devrt.sharding import render_sharding

__all__ = ["run"]

_HOST = "cpu"
_REPETITIONS = 30


@dataclasses.dataclass
class _Checks:
    """What was compared bit for bit, and whether all of it agreed."""

    passed: int = 0
    failed: int = 0

    def equal(self, what: str, got: Any, expected: np.ndarray[Any, Any]) -> None:
        host = np.asarray(got)
        same = (
            host.shape == expected.shape
            and host.dtype == expected.dtype
            and host.tobytes() == expected.tobytes()
        )
        self.passed += same
        self.failed += not same
        word, style = ("identical", "green") if same else ("DIFFERENT", "bold red")
        _say(f"  {what}: ", Text(word, style))


def run(path: str | None, count: int) -> bool:
    """Run every step on the data in ``path`` over ``count`` devices; return whether all agreed."""
    data = load(path)
    _title(f"Input: {data.name}")
    _say(f"  shape {data.array.shape}, {data.array.dtype}, {tables.human_bytes(data.array.nbytes)}")
    _choose()
    devrt.config.update("num_cpu_devices", count)
    devices = devrt.devices(_HOST)[:count]
    checks = _Checks()
    sharded = _shard(data, devices, checks)
    _move(data, sharded, devices, checks)
    if data.labels is not None:
        _classify(data, devices, checks)
    for platform in _accelerators():
        _visit(platform, data, checks)
    _measure(data, sharded, devices)
    total = checks.passed + checks.failed
    _title(f"{checks.passed} of {total} comparisons bit for bit identical")
    return checks.failed == 0


def _say(*parts: str | Text) -> None:
    tables.Output().line(Text.assemble(*parts))


def _title(text: str) -> None:
    _say("")
    _say(Text(text, "bold"))


def _choose() -> None:
    _title("Backends")
    report = _report.backends()
    tables.show_backends(report)
    if devrt.default_runtime().decide(_HOST).chosen is None or report["chosen"] is None:
        devrt.get_backend(_HOST)  # raises with every cause
        devrt.get_backend()
    _say(f"  default: {report['chosen']}")


def _accelerators() -> list[str]:
    others = [c for c in devrt.default_runtime().decide().usable if c.ref.platform != _HOST]
    return [c.ref.platform for c in others if not c.experimental]


def _shard(data: Input, devices: list[Device], checks: _Checks) -> devrt.Array:
    _title(f"Sharded by rows over a mesh of {len(devices)} {_HOST} devices")
    mesh = devrt.make_mesh((len(devices),), ("rows",), devices=devices)
    padded, added = _padded(data.array, len(devices))
    if added:
        _say(f"  {data.array.shape[0]} rows do not divide by {len(devices)}: padded with {added}")
    sharding = devrt.NamedSharding(mesh, devrt.P("rows"))
    sharded: devrt.Array = devrt.device_put(padded, sharding).block_until_ready()
    _say(render_sharding(padded.shape[:2], sharding))
    checks.equal("gathered from all shards", devrt.device_get(sharded), padded)
    checks.equal("without the padding", devrt.device_get(sharded)[: len(data.array)], data.array)
    return sharded


def _padded(array: np.ndarray[Any, Any], parts: int) -> tuple[np.ndarray[Any, Any], int]:
    added = -len(array) % parts
    widths = [(0, added)] + [(0, 0)] * (array.ndim - 1)
    return (np.pad(array, widths) if added else array), added


def _move(data: Input, sharded: devrt.Array, devices: list[Device], checks: _Checks) -> None:
    _title("One shard, moved about")
    shard = sharded.addressable_shards[-1]
    rows = f"{shard.index[0].start or 0}:{shard.index[0].stop or len(data.array)}"
    expected = np.asarray(shard.data)
    current = shard.data
    for kind in (*_other_kinds(shard.device), shard.device.default_memory().kind):
        current = devrt.device_put(current, shard.device.memory(kind)).block_until_ready()
        checks.equal(f"rows {rows} of {shard.device} in {kind}", current, expected)
    arrived = devrt.device_put(current, devices[0])
    checks.equal(f"the same shard on {devices[0]}", arrived, expected)


def _other_kinds(device: Device) -> list[str]:
    default = device.default_memory().kind
    return [m.kind for m in device.addressable_memories() if m.kind != default]


def _classify(data: Input, devices: list[Device], checks: _Checks) -> None:
    from devrt.cli import demo_program as program

    _title(f"A compiled program: a classifier that JAX exported, over {program.DEVICES} devices")
    if len(devices) < program.DEVICES:
        _say(f"  left out: it needs {program.DEVICES} devices, and there are {len(devices)}")
        return
    images, labels = data.array[-program.HELD_OUT :], data.labels
    assert labels is not None
    try:
        compiled, found = program.classify(images, devices[: program.DEVICES])
    except devrt.errors.UnimplementedError as error:  # no compiler: all else works without
        _say(f"  left out: {error}")
        return
    _say(f"  images lie as {compiled.in_shardings[-1]}")
    checks.equal("labels, as NumPy finds them", found, program.expected(images))
    right = float(np.mean(found == labels[-program.HELD_OUT :]))
    _say(f"  {len(found)} digits that it was not trained on: {right:.1%} right")


def _visit(platform: str, data: Input, checks: _Checks) -> None:
    try:
        device = devrt.local_devices(backend=platform)[0]
    except devrt.errors.BackendInitializationError as error:  # the host's part stands all the same
        _say(f"  left out: {error}")
        return
    there = devrt.device_put(data.array, device).block_until_ready()
    checks.equal(f"to {device} and back", devrt.device_get(there), data.array)


def _measure(data: Input, sharded: devrt.Array, devices: list[Device]) -> None:
    _title("Throughput (median of repeated runs) and memory")
    padded, _ = _padded(data.array, len(devices))
    sharding = sharded.sharding

    def put() -> None:
        devrt.device_put(padded, sharding).block_until_ready()

    def get() -> None:
        devrt.device_get(sharded.clone())

    for what, work in (("put over the mesh", put), ("gather to the host", get)):
        seconds = _median_seconds(work)
        _say(f"  {what}: {padded.nbytes / seconds / 1e9:.2f} GB/s ({seconds * 1e6:.0f} us)")
    stats = [device.memory_stats() or {} for device in devices]
    in_use = sum(s.get("bytes_in_use", 0) for s in stats)
    peak = max(s.get("peak_bytes_in_use", 0) for s in stats)
    _say(f"  in use on {len(devices)} devices: {tables.human_bytes(in_use)}")
    _say(f"  peak on one device: {tables.human_bytes(peak)}")


def _median_seconds(work: Callable[[], None]) -> float:
    work()
    seconds = []
    for _ in range(_REPETITIONS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)
