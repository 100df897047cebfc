"""Operators and functions on arrays outside of any jit: each is a program of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, islice
from typing import Any

import numpy as np

from bench.case import Factory, Spec, Timed, repeated
from bench.subjects._data import both_sides

__all__ = ["SPECS", "devrt_cases", "jax_cases"]

ADD = "x + y on 8 floats, not waited for"
SCALED = "x * i, another number each time, not waited for"
SLICE = "x[i:i+3] of 1000 floats, another i each time, not waited for"
ITEM = "x[i] of 1000 floats, another i each time, not waited for"
SUM = "x.sum() of 1000 floats, waited for"
WHERE = "numpy.where(x > 0, x, 0) on 8 floats, not waited for"

SPECS = [Spec(name) for name in (ADD, SCALED, SLICE, ITEM, SUM, WHERE)]


def _cases(api: Any) -> dict[str, Factory]:
    return {
        ADD: lambda: _add(api),
        SCALED: lambda: _numbered(_array(api, 8), lambda x, i: x * i),
        SLICE: lambda: _numbered(_array(api, 1000), lambda x, i: x[i : i + 3]),
        ITEM: lambda: _numbered(_array(api, 1000), lambda x, i: x[i]),
        SUM: lambda: repeated(lambda x: x.sum().block_until_ready(), _array(api, 1000)),
        WHERE: lambda: _where(api),
    }


devrt_cases, jax_cases = both_sides(_cases)


def _array(api: Any, size: int) -> Any:
    return api.device_put(np.arange(size, dtype=np.float32))


def _add(api: Any) -> Timed:
    y = _array(api, 8)
    return repeated(lambda x: x + y, _array(api, 8))


def _where(api: Any) -> Timed:
    where = __import__(f"{api.__name__}.numpy").numpy.where
    return repeated(lambda x: where(x > 0, x, 0), _array(api, 8))


def _numbered(x: Any, call: Any) -> Timed:
    """Time a call with the numbers from 0 to 899, again and again."""

    def items(loops: int) -> Iterator[int]:
        return islice(cycle(range(900)), loops)

    call(x, 0)
    return Timed(lambda i: call(x, i), items)
