"""Arrays on simulated devices: put, sharded, moved between them and between memories, compared.

``devrt demo --mock PLATFORM:2x4`` runs this. Where the devices' client compiles no programs it says
so. It measures nothing: how long something takes there says nothing of a device.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import devrt
from devrt.errors import UnimplementedError
from devrt.sharding import render_sharding

__all__ = ["run"]

_ROWS = 8  # of each shard


def run(platform: str) -> bool:
    """Run every step on a platform's devices of this process; return whether all was as it must.

    Parameters
    ----------
    platform
        A platform whose devices are simulated, or any other.
    """
    devices = devrt.local_devices(backend=platform)
    expected = np.arange(len(devices) * _ROWS * 4, dtype=np.float32).reshape(-1, 4)
    mesh = devrt.make_mesh((len(devices),), ("rows",), devices=devices)
    sharding = devrt.NamedSharding(mesh, devrt.P("rows"))
    sharded = devrt.device_put(expected, sharding).block_until_ready()
    print(f"\nSharded by rows over {len(devices)} devices of {platform}")
    print(render_sharding(expected.shape, sharding))
    checks = [_is_equal("gathered from all shards", devrt.device_get(sharded), expected)]
    checks += _move(sharded.addressable_shards[-1].data, devices)
    _show_memory(devices)
    checks.append(_says_who_computes(sharded))
    print(f"\n{sum(checks)} of {len(checks)} as they must be")
    return all(checks)


def _move(shard: Any, devices: list[devrt.Device]) -> list[bool]:
    print("\nOne shard, from device to device and through each memory of the last")
    expected, current = np.asarray(shard), shard
    checks = []
    for device in devices:
        current = devrt.device_put(current, device).block_until_ready()
        checks.append(_is_equal(f"on {device}", current, expected))
    for memory in devices[-1].addressable_memories():
        current = devrt.device_put(current, memory).block_until_ready()
        checks.append(_is_equal(f"in {memory.kind}", current, expected))
    return checks


def _show_memory(devices: list[devrt.Device]) -> None:
    print("\nMemory in use, as each device's allocator counts it")
    for device in devices:
        stats = device.memory_stats() or {}
        print(f"  {device}: {stats.get('bytes_in_use', 0)} bytes")


def _says_who_computes(array: Any) -> bool:
    print("\nA program (x + 1)")
    try:
        found = np.asarray(array + 1)
    except UnimplementedError as error:
        print(f"  not run: {error}")
        return True
    return _is_equal("x + 1", found, np.asarray(array) + 1)


def _is_equal(what: str, got: Any, expected: np.ndarray[Any, Any]) -> bool:
    host = np.asarray(got)
    is_same = host.dtype == expected.dtype and np.array_equal(host, expected)
    print(f"  {what}: {'identical' if is_same else 'DIFFERENT'}")
    return is_same
