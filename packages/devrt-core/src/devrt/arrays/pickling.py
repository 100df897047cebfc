"""Pickled arrays: the value, and where it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt.arrays.array import Array
from devrt.arrays.missing import gone
from devrt.arrays.placement import device_put

if TYPE_CHECKING:
    import numpy as np

    from devrt.sharding import Sharding

__all__ = ["reduce_array"]


def reduce_array(x: Array) -> tuple[Any, ...]:
    """Return how to make ``x`` again, for pickle.

    An array that was placed by default is placed so again; any other goes back to its sharding,
    with one transfer, and raises `InvalidArgumentError` where its devices do not exist.
    """
    if x.is_deleted():
        raise gone(x, "pickle")
    return _restore, (x._value("pickle"), x.sharding if x.committed else None)


def _restore(value: np.ndarray[Any, Any], sharding: Sharding | None) -> Array:
    restored: Array = device_put(value, sharding)
    return restored
