"""Reading an array back: np.asarray first and again, device_get, DLPack."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Sweep, Timed, fresh, repeated
from bench.subjects._data import BYTES, MIB, both_sides, sharding, source

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

FIRST = "np.asarray of 8 floats, first time"
AGAIN = "np.asarray of 8 floats, again"
GET_FIRST = "device_get of 8 floats, first time"
GET_AGAIN = "device_get of 8 floats, again"
DLPACK = "np.from_dlpack of 8 floats"
DLPACK_ROUND = "dlpack.from_dlpack of an array, 8 floats"
SHARDS = "np.asarray of 64 floats on 8 devices, first time"
_DEVICES = (1, 2, 4, 8, 16, 32, 64)


def _by_bytes(nbytes: int) -> str:
    return f"np.asarray first time, {nbytes} bytes"


def _by_devices(count: int) -> str:
    return f"np.asarray first time, 64 floats on {count} of 64 devices"


SPECS = [
    *map(Spec, (FIRST, AGAIN, GET_FIRST, GET_AGAIN, DLPACK, DLPACK_ROUND)),
    Spec(SHARDS, devices=8),
    *(
        Spec(
            _by_bytes(n),
            sweep=Sweep("np.asarray, first time, by bytes", "B", n),
            is_large=n > 64 * MIB,
        )
        for n in BYTES
    ),
    *(
        Spec(
            _by_devices(n),
            devices=64,
            sweep=Sweep("np.asarray, first time, 64 floats by devices", "device", n),
        )
        for n in _DEVICES
    ),
]


def _cases(api: Any) -> dict[str, Factory]:
    return {
        FIRST: lambda: _first(api, np.asarray, 32),
        AGAIN: lambda: _again(api, np.asarray),
        GET_FIRST: lambda: _first(api, api.device_get, 32),
        GET_AGAIN: lambda: _again(api, api.device_get),
        DLPACK: lambda: _again(api, np.from_dlpack),
        DLPACK_ROUND: lambda: _again(api, import_module(f"{api.__name__}.dlpack").from_dlpack),
        SHARDS: lambda: _first(api, np.asarray, 256, sharding(api, 8)),
        **{_by_bytes(n): partial(_first, api, np.asarray, n) for n in BYTES},
        **{_by_devices(n): partial(_first_of, api, n) for n in _DEVICES},
    }


devrt_cases, jax_cases = both_sides(_cases)


def _first_of(api: Any, devices: int) -> Timed:
    return _first(api, np.asarray, 256, sharding(api, devices))


def _first(api: Any, read: Any, nbytes: int, target: Any = None) -> Timed:
    """Read arrays that were never read: both libraries keep what the first read made."""
    x, where = source(nbytes), api.devices()[0] if target is None else target

    def make() -> Any:
        return api.device_put(x, where, may_alias=False).block_until_ready()

    return fresh(read, make, nbytes)


def _again(api: Any, read: Any) -> Timed:
    array = api.device_put(source(32), api.devices()[0]).block_until_ready()
    read(array)
    return repeated(read, array)
