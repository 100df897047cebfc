"""Where elements are true, by NumPy's names.

How many there are depends on the data: outside of a trace the elements are read for that, in one
``size`` says how many positions there are to be.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from devrt.arrays import Array
from devrt.errors import ConcretizationTypeError, InvalidArgumentError
from devrt.numpy.comparisons import truth
from devrt.numpy.creation import array
from devrt.numpy.selection import choose_where
from devrt.numpy.shaping import ravel
from devrt.programs.eager import operation
from devrt.tracing import (
    Tracer,
    as_value,
    at_user_line,
    binary,
    compare,
    concatenate,
    convert,
    iota,
    named,
    pad,
    reduce,
    reshape,
    select,
    slice_,
    sort,
    unary,
)

__all__ = ["argwhere", "compress", "extract", "flatnonzero", "nonzero", "where"]


def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Return elements of ``x`` where a condition is true, of ``y`` elsewhere.

    Of the condition alone, what `nonzero` gives of it.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        msg = "where takes both x and y, or neither."
        raise InvalidArgumentError(msg, operation="where")
    return choose_where(condition, x, y)


def nonzero(a: Any, /, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """Return the positions of elements that are not 0: for each dimension an array.

    Parameters
    ----------
    a
        The array, of one dimension or more.
    size
        How many positions: more than there are leave the last ones out, fewer are filled. Needed in
        a trace.
    fill_value
        Fills up; one number, or one for each dimension. 0 by default.
    """
    if not np.ndim(a):
        msg = f"nonzero of an array without dimensions{at_user_line()}. Use atleast_1d(x)."
        raise InvalidArgumentError(msg, operation="nonzero")
    if size is not None:
        fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * np.ndim(a)
        return tuple(_positions(a, size, tuple(0 if each is None else each for each in fills)))
    host = _read(a, "nonzero")
    return tuple(_beside(a, each.astype(np.int32)) for each in np.nonzero(host))


def _read(x: Any, name: str) -> np.ndarray[Any, Any]:
    if isinstance(x, Tracer):
        msg = (
            f"{name} of a traced {x.aval}{at_user_line()}: how many elements are true is not known "
            "yet. Say with size= how many positions there are to be."
        )
        raise ConcretizationTypeError(msg)
    return np.asarray(x)


def _beside(x: Any, host: Any) -> Any:
    """Return an array on the device of another one, if that was chosen."""
    is_chosen = type(x) is Array and x.committed and len(x.devices()) == 1
    return array(host, device=x.device if is_chosen else None)


@operation(static=("size",))
def _positions(a: Any, size: int, fills: tuple[Any, ...]) -> list[Any]:
    mask = truth(a)
    flat = reshape(mask, (mask.size,))
    count = reduce("add", convert(flat, named("int32")), 0, [0])
    order = _true_first(flat)
    order = slice_(order, (0,), (min(size, mask.size),))
    order = pad(order, 0, (0,), (max(size - mask.size, 0),))
    is_known = compare("LT", iota((size,), 0, named("int32")), count)
    found = []
    for d, n in enumerate(mask.shape):
        stride = max(math.prod(mask.shape[d + 1 :]), 1)
        along = binary("remainder", binary("divide", order, stride), max(n, 1))
        found.append(select(is_known, along, fills[d]))
    return found


def _true_first(mask: Any) -> Any:
    """Return the positions of a mask, those of true elements first, each kind in order."""
    late = convert(unary("not", mask), named("int8"))
    return sort([late, iota(mask.shape, 0, named("int32"))], 0)[1]


def flatnonzero(a: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Return the positions of elements that are not 0, in the order of rows; see `nonzero`."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Return the positions of elements that are not 0, one in each row; see `nonzero`."""
    if not np.ndim(a):
        return array(np.zeros((int(bool(_read(a, "argwhere"))), 0), np.int32))
    return _columns(nonzero(a, size=size, fill_value=fill_value))


@operation
def _columns(positions: tuple[Any, ...]) -> Any:
    values = [as_value(each) for each in positions]
    return concatenate([reshape(value, (value.size, 1)) for value in values], 1)


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
) -> Any:
    """Return the parts of an array along an axis where a condition of one dimension is true.

    Without an axis those of its elements in the order of rows. ``size`` as in `nonzero`.
    """
    from devrt.numpy.taking import take

    a, axis = (ravel(a), 0) if axis is None else (a, axis)
    if size is None:
        return take(a, nonzero(condition)[0], axis)
    positions = nonzero(condition, size=size, fill_value=a.shape[axis])[0]
    return take(a, positions, axis, mode="fill", fill_value=fill_value)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """Return the elements where a condition is true, in the order of rows; see `compress`."""
    return compress(ravel(condition), arr, size=size, fill_value=fill_value)
