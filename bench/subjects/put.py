"""device_put of small arrays: what a call costs beside what it moves."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.case import Factory, Spec, Sweep, Timed, repeated
from bench.subjects._data import BYTES, MIB, both_sides, sharding, source

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

ONE = "8 floats, one device, not waited for"
ONE_WAITED = "8 floats, one device, waited for"
EIGHT = "64 floats over 8 devices, not waited for"
EIGHT_WAITED = "64 floats over 8 devices, waited for"
BATCH = "a list of 16 arrays of 8 floats, one device"
_DEVICES = (1, 2, 4, 8, 16, 32, 64)
_BATCHES = (1, 4, 16, 64, 256)


def _by_bytes(nbytes: int) -> str:
    return f"one device, waited for, {nbytes} bytes"


def _by_devices(count: int) -> str:
    return f"64 floats over {count} of 64 devices, waited for"


def _by_arrays(count: int) -> str:
    return f"a list of {count} arrays of 8 floats"


SPECS = [
    Spec(ONE),
    Spec(ONE_WAITED),
    Spec(BATCH),
    Spec(EIGHT, devices=8),
    Spec(EIGHT_WAITED, devices=8),
    *(
        Spec(_by_bytes(n), sweep=Sweep("put by bytes, waited for", "B", n), is_large=n > 64 * MIB)
        for n in BYTES
    ),
    *(
        Spec(_by_arrays(n), sweep=Sweep("put of a list by arrays in it", "array", n))
        for n in _BATCHES
    ),
    *(
        Spec(_by_devices(n), devices=64, sweep=Sweep("put of 64 floats by devices", "device", n))
        for n in _DEVICES
    ),
]


def _cases(api: Any) -> dict[str, Factory]:
    """Both sides have one interface: the library is the only difference."""
    return {
        ONE: lambda: _put(api, 32, api.devices()[0]),
        ONE_WAITED: lambda: _put(api, 32, api.devices()[0], is_waited=True),
        EIGHT: lambda: _put(api, 256, sharding(api, 8)),
        EIGHT_WAITED: lambda: _put(api, 256, sharding(api, 8), is_waited=True),
        BATCH: partial(_put_list, api, 16),
        **{_by_bytes(n): partial(_put_bytes, api, n) for n in BYTES},
        **{_by_arrays(n): partial(_put_list, api, n) for n in _BATCHES},
        **{_by_devices(n): partial(_put_over, api, n) for n in _DEVICES},
    }


devrt_cases, jax_cases = both_sides(_cases)


def _put(api: Any, nbytes: int, target: Any, *, is_waited: bool = False) -> Timed:
    put = api.device_put
    if is_waited:
        return repeated(lambda x: put(x, target).block_until_ready(), source(nbytes))
    return repeated(lambda x: put(x, target), source(nbytes))


def _put_bytes(api: Any, nbytes: int) -> Timed:
    put, device = api.device_put, api.devices()[0]
    # may_alias=False: a library that aliases by default would show no bytes at all.
    return repeated(lambda x: put(x, device, may_alias=False).block_until_ready(), source(nbytes))


def _put_over(api: Any, count: int) -> Timed:
    return _put(api, 256, sharding(api, count), is_waited=True)


def _put_list(api: Any, count: int) -> Timed:
    put, device = api.device_put, api.devices()[0]
    return repeated(lambda xs: put(xs, device), [source(32) for _ in range(count)])
