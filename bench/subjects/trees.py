"""Trees of small arrays: put, read back, waited for, by the number of leaves."""

from __future__ import annotations

from functools import partial
from typing import Any

from bench.case import Factory, Spec, Sweep, Timed, fresh, repeated
from bench.subjects._data import both_sides, sharding, source

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

_LEAVES = (1, 10, 100, 1000)
_SHARDED = "put of a tree of 100 leaves of 64 floats over 8 devices"


def _name(verb: str, count: int) -> str:
    return f"{verb} of a tree of {count} leaves of 8 floats"


SPECS = [
    Spec(_SHARDED, devices=8),
    *(
        Spec(_name(verb, n), sweep=Sweep(f"{verb} of a tree by leaves", "leaf", n))
        for verb in ("put", "get", "wait")
        for n in _LEAVES
    ),
]


def _cases(api: Any) -> dict[str, Factory]:
    return {
        _SHARDED: partial(_put_sharded, api),
        **{_name("put", n): partial(_put, api, n) for n in _LEAVES},
        **{_name("get", n): partial(_get, api, n) for n in _LEAVES},
        **{_name("wait", n): partial(_wait, api, n) for n in _LEAVES},
    }


devrt_cases, jax_cases = both_sides(_cases)


def _tree(count: int, nbytes: int = 32) -> dict[str, list[Any]]:
    """Return a dict of lists of up to ten arrays."""
    return {
        f"layer{first:04}": [source(nbytes) for _ in range(first, min(first + 10, count))]
        for first in range(0, count, 10)
    }


def _put(api: Any, count: int) -> Timed:
    put, device = api.device_put, api.devices()[0]
    return repeated(lambda tree: put(tree, device), _tree(count))


def _put_sharded(api: Any) -> Timed:
    put, target = api.device_put, sharding(api, 8)
    return repeated(lambda tree: put(tree, target), _tree(100, 256))


def _get(api: Any, count: int) -> Timed:
    tree, device = _tree(count), api.devices()[0]
    return fresh(api.device_get, lambda: api.device_put(tree, device), 4096 * count)


def _wait(api: Any, count: int) -> Timed:
    placed = api.device_put(_tree(count), api.devices()[0])
    return repeated(api.block_until_ready, placed)
