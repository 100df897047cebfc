"""Dtypes of what the host holds: Python's numbers become 32-bit, arrays keep theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from devrt.arrays import Array
from devrt.tracing import result_type

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["held_dtype", "narrowed"]

_NARROW = {"int64": np.int32, "float64": np.float32, "complex128": np.complex64}


_NUMBERS = {bool, int, float, complex}


def narrowed(host: np.ndarray[Any, Any], dtype: DTypeLike | None) -> np.ndarray[Any, Any]:
    """Narrow what NumPy made of Python scalars, as JAX does."""
    narrow = _NARROW.get(host.dtype.name) if dtype is None else None
    if narrow is None:
        return host
    if host.dtype.kind == "i" and host.size:
        limits = np.iinfo(np.int32)
        if host.min() < limits.min or host.max() > limits.max:
            return host
    return host.astype(narrow)


def held_dtype(object: Any) -> np.dtype[Any] | None:
    """Return the dtype of a list in which something has one; None of one of Python's numbers."""
    held = list(_not_numbers(object)) if type(object) in (list, tuple) else []
    if not any(hasattr(each, "dtype") for each in held):
        return None
    common: np.dtype[Any] = result_type(*held)[0]
    return common


def _not_numbers(items: list[Any] | tuple[Any, ...]) -> Iterator[Any]:
    """Yield what nested lists hold besides Python's numbers, and one of each kind of those."""
    kinds = set(map(type, items))  # of many numbers the kinds are few
    yield from (kind() for kind in kinds & _NUMBERS)
    if not kinds <= _NUMBERS:
        for each in items:
            if type(each) in (list, tuple):
                yield from _not_numbers(each)
            elif type(each) is Array or isinstance(each, np.ndarray | np.generic):
                yield each
