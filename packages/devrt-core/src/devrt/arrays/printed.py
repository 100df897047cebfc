"""Arrays as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devrt.arrays.array import Array

__all__ = ["outline", "representation"]


def outline(x: Array) -> str:
    """Return shape, dtype and state of an array without a value here; empty if it has one."""
    what = f"Array(shape={x.shape}, dtype={x.dtype.name}"
    if x.is_deleted():
        return f"{what}, deleted)"
    has_value = x.is_fully_addressable or (x.is_fully_replicated and x.addressable_shards)
    return "" if has_value else f"{what}, sharding={x.sharding})"


def representation(x: Array) -> str:
    """Return an array's value and dtype, as NumPy writes them."""
    dtype = f"dtype={x.dtype.name}"
    if not x.size:  # "[]" is what NumPy writes, whatever the shape
        return f"Array([], shape={x.shape}, {dtype})"
    import numpy as np

    text = np.array2string(x._value(), separator=", ", prefix="Array(", suffix=f", {dtype})")
    return f"Array({text}, {dtype})"
