"""Which reductions there are of which dtypes, and how the parts of several ranks are reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt import dtypes
from devrt.contract import REDUCTIONS
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError

__all__ = ["check_reduction", "finished", "is_native", "prepared", "reduce_into", "reduced"]

Array = np.ndarray[Any, np.dtype[Any]]

_NATIVE = frozenset("bhilqBHILQfdFD")  # what processors, MPI and Gloo add alike
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "avg": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def check_reduction(dtype: np.dtype[Any], op: str) -> None:
    """Refuse what is no reduction, or none of the dtype."""
    if op not in REDUCTIONS:
        msg = f"there is no reduction {op!r}. Use one of {', '.join(REDUCTIONS)}."
        raise InvalidArgumentError(msg, op=op)
    if op in ("min", "max") and dtype.kind == "c":
        msg = f"complex numbers have no order, so {op} cannot be had of {dtype}. Reduce by sum."
        raise InvalidTypeError(msg, op=op)
    is_number = dtype.kind in "iufc" or (dtype.kind == "V" and _is_narrow_float(dtype))
    is_order = dtype.kind == "b" and op in ("min", "max")
    if not is_number and not is_order:
        msg = f"{op} is not defined for {dtype}. Convert it to a type of numbers first."
        raise InvalidTypeError(msg, op=op)


def is_native(dtype: np.dtype[Any]) -> bool:
    """Return whether engines reduce elements of a dtype as they are."""
    return dtype.char in _NATIVE


def prepared(x: Array) -> Array:
    """Return elements as engines reduce them: narrow floating types as float32, bool as bytes."""
    if x.dtype.kind == "b":
        return x.view(np.uint8)
    return x if x.dtype.char in _NATIVE else x.astype(np.float32)


def finished(x: Array, dtype: np.dtype[Any], op: str, size: int) -> Array:
    """Return what an engine made of `prepared` elements, of their own dtype again."""
    if op == "avg":
        x = _divided(x, size)
    return x.view(np.bool_) if dtype.kind == "b" else x.astype(dtype, copy=False)


def reduced(parts: Sequence[Array], op: str) -> Array:
    """Return `prepared` parts reduced in the order of their ranks; ``avg`` as their sum."""
    total = np.empty_like(parts[0])
    reduce_into(total, parts, op)
    return total


def reduce_into(total: Array, parts: Sequence[Array], op: str) -> None:
    """Fill an array with `prepared` parts reduced in the order of their ranks."""
    if total is not parts[0]:
        total[...] = parts[0]
    for part in parts[1:]:
        with np.errstate(all="ignore"):  # as devices do
            _ARITHMETIC[op](total, part, out=total)


def _divided(x: Array, size: int) -> Array:
    """Return the quotients; of integers rounded towards zero."""
    if x.dtype.kind not in "iu":
        return np.asarray(x / x.dtype.type(size))
    rest = np.remainder(x, x.dtype.type(size))
    up = (x < 0) & (rest != 0)
    return np.asarray(x // x.dtype.type(size) + up.astype(x.dtype))


def _is_narrow_float(dtype: np.dtype[Any]) -> bool:
    try:
        return "float" in dtype.name and dtypes.code_of(dtype) is not None
    except (InvalidTypeError, UnimplementedError):
        return False
