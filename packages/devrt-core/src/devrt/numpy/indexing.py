"""Indexing: parts of arrays, and arrays with other parts."""

from __future__ import annotations

from typing import Any

from devrt.programs.eager import operation
from devrt.tracing import as_value, reshape, slice_

__all__ = ["take_index"]


def take_index(x: Any, index: Any) -> Any:
    """Return ``x[index]``."""
    return _at(x, int(index))


@operation(static=("index",))
def _at(x: Any, index: int) -> Any:
    x = as_value(x)
    starts = (index % x.shape[0], *(0,) * (x.ndim - 1))
    part = slice_(x, starts, (starts[0] + 1, *x.shape[1:]))
    return reshape(part, x.shape[1:])
