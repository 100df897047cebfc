"""Calls of functions that are compiled already: what is around the program."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Sweep, Timed, repeated
from bench.subjects._data import both_sides, sharding

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

ONE = "x + x on 8 floats, not waited for"
ONE_WAITED = "x + x on 8 floats, waited for"
THREE = "x + y + z on 8 floats each, not waited for"
TREE = "a tree of three arrays in, one out, not waited for"
EIGHT = "x + x on 64 floats over 8 devices, waited for"
_MATMUL = "matmul of 1024 x 1024 by rows over devices, waited for"
_DEVICES = (1, 2, 4, 8)


def _matmul(count: int) -> str:
    return f"{_MATMUL}, {count}"


SPECS = [
    Spec(ONE),
    Spec(ONE_WAITED),
    Spec(THREE),
    Spec(TREE),
    Spec(EIGHT, devices=8),
    *(Spec(_matmul(n), devices=8, sweep=Sweep(_MATMUL, "device", n)) for n in _DEVICES),
]


def _cases(api: Any) -> dict[str, Factory]:
    return {
        ONE: lambda: _one(api, is_waited=False),
        ONE_WAITED: lambda: _one(api, is_waited=True),
        THREE: lambda: _three(api),
        TREE: lambda: _tree(api),
        EIGHT: lambda: _eight(api),
        **{_matmul(n): partial(_multiply, api, n) for n in _DEVICES},
    }


devrt_cases, jax_cases = both_sides(_cases)


def _arrays(api: Any, count: int) -> list[Any]:
    return [api.device_put(np.arange(8, dtype=np.float32)) for _ in range(count)]


def _called(call: Callable[..., Any], arguments: list[Any], *, is_waited: bool = False) -> Timed:
    """Time a call after the first, which compiles."""
    call(*arguments)
    if is_waited:
        return repeated(lambda a: call(*a).block_until_ready(), arguments)
    return repeated(lambda a: call(*a), arguments)


def _one(api: Any, *, is_waited: bool) -> Timed:
    call = api.jit(lambda x: x + x)
    (x,) = _arrays(api, 1)
    call(x)
    return repeated((lambda a: call(a).block_until_ready()) if is_waited else call, x)


def _three(api: Any) -> Timed:
    return _called(api.jit(lambda x, y, z: x + y + z), _arrays(api, 3))


def _tree(api: Any) -> Timed:
    x, y, z = _arrays(api, 3)
    call = api.jit(lambda t: {"sum": t["a"] + t["b"][0] + t["b"][1]})
    return _called(call, [{"a": x, "b": [y, z]}])


def _eight(api: Any) -> Timed:
    x = api.device_put(np.arange(64, dtype=np.float32), sharding(api, 8))
    return _called(api.jit(lambda x: x + x), [x], is_waited=True)


def _multiply(api: Any, count: int) -> Timed:
    on = sharding(api, count)
    whole = api.sharding.NamedSharding(on.mesh, api.sharding.PartitionSpec())
    values = np.random.default_rng(0).standard_normal((1024, 1024)).astype(np.float32)
    x, w = api.device_put(values, on), api.device_put(values, whole)
    return _called(api.jit(lambda x, w: x @ w), [x, w], is_waited=True)
