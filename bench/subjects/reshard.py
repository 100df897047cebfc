"""Changing the sharding of an array that is on devices: what moves, and what it costs."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Sweep, Timed, repeated
from bench.subjects._data import MIB, both_sides

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

SIZE = 64 * MIB
_REPLICATED = ((), ())
_ROWS = (("x", "y"), ())
_COLUMNS = ((), ("x", "y"))
_GRID = (("x",), ("y",))
_PAIRS = {
    "64 MiB from 8 shards to replicated on 8": (_ROWS, _REPLICATED),
    "64 MiB from replicated on 8 to 8 shards": (_REPLICATED, _ROWS),
    "64 MiB from 8 row blocks to 8 column blocks": (_ROWS, _COLUMNS),
    "64 MiB from 8 row blocks to a grid of 4 by 2": (_ROWS, _GRID),
}
ONE = "64 MiB from 8 shards to one device"
OTHERS = "64 MiB from 8 shards to 8 in the other order"
SMALL = "256 B from 8 shards to replicated on 8"
_BYTES = (1 << 10, 16 << 10, 256 << 10, 4 * MIB, 64 * MIB, 1024 * MIB)
_DEVICES = (2, 4, 8, 16, 32, 64)


def _by_bytes(nbytes: int) -> str:
    return f"row blocks to column blocks on 8, {nbytes} bytes"


def _by_devices(count: int) -> str:
    return f"16 MiB from row blocks to column blocks, {count} of 64 devices"


SPECS = [
    *(Spec(name, devices=8) for name in (*_PAIRS, ONE, OTHERS, SMALL)),
    *(
        Spec(
            _by_bytes(n),
            devices=8,
            sweep=Sweep("rows to columns by bytes", "B", n),
            is_large=n > SIZE,
        )
        for n in _BYTES
    ),
    *(
        Spec(
            _by_devices(n),
            devices=64,
            sweep=Sweep("16 MiB rows to columns by devices", "device", n),
        )
        for n in _DEVICES
    ),
]


def _cases(api: Any) -> dict[str, Factory]:
    return {
        **{name: partial(_between, api, *pair, SIZE, 8) for name, pair in _PAIRS.items()},
        ONE: partial(_to_one, api),
        OTHERS: partial(_to_the_other_order, api),
        SMALL: partial(_between, api, _ROWS, _REPLICATED, 256, 8),
        **{_by_bytes(n): partial(_between, api, _ROWS, _COLUMNS, n, 8) for n in _BYTES},
        **{_by_devices(n): partial(_between, api, _ROWS, _COLUMNS, 16 * MIB, n) for n in _DEVICES},
    }


devrt_cases, jax_cases = both_sides(_cases)


def _sharding(api: Any, entries: tuple[Any, Any], devices: list[Any]) -> Any:
    grid = np.array(devices).reshape(-1, 2)
    mesh = api.sharding.Mesh(grid, ("x", "y"))
    return api.sharding.NamedSharding(mesh, api.sharding.PartitionSpec(*entries))


def _array(api: Any, nbytes: int, sharding: Any) -> Any:
    """Return a square or nearly square matrix whose sides divide by 64, or by 8 if it is small."""
    side = 8 if nbytes < 16 << 10 else 64
    rows = max(side, int((nbytes // 4) ** 0.5) // side * side)
    x = np.arange(nbytes // 4, dtype=np.float32).reshape(rows, -1)
    return api.device_put(x, sharding, may_alias=False).block_until_ready()


def _between(api: Any, source: Any, target: Any, nbytes: int, count: int) -> Timed:
    devices = api.devices()[:count]
    array = _array(api, nbytes, _sharding(api, source, devices))
    return _timed(api, array, _sharding(api, target, devices))


def _to_one(api: Any) -> Timed:
    devices = api.devices()[:8]
    array = _array(api, SIZE, _sharding(api, _ROWS, devices))
    return _timed(api, array, api.sharding.SingleDeviceSharding(devices[3]))


def _to_the_other_order(api: Any) -> Timed:
    devices = api.devices()[:8]
    array = _array(api, SIZE, _sharding(api, _ROWS, devices))
    return _timed(api, array, _sharding(api, _ROWS, devices[::-1]))


def _timed(api: Any, array: Any, target: Any) -> Timed:
    put = api.device_put
    return repeated(lambda x: put(x, target).block_until_ready(), array, _moved(array, target))


def _moved(array: Any, target: Any) -> str:
    """Say what devrt's plan moves; JAX does not tell."""
    if type(array).__module__.split(".")[0] != "devrt":
        return ""
    from devrt.arrays import transfer_cost

    cost = transfer_cost(array, target)
    return f"{cost.bytes_moved:,} bytes moved, {cost.least_bytes:,} the least possible"
