"""Diagonals: taken from arrays, and made into them; where the triangles beside them lie."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import array_of, axis_of, refuse_out, shape_at
from devrt.numpy.reductions import sum as total
from devrt.numpy.shaping import ravel
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, convert

__all__ = [
    "diag",
    "diag_indices",
    "diag_indices_from",
    "diagflat",
    "diagonal",
    "fill_diagonal",
    "mask_indices",
    "trace",
    "tril_indices",
    "tril_indices_from",
    "triu_indices",
    "triu_indices_from",
]


@operation(static=("offset", "axis1", "axis2"))
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return the elements with equal indices along two axes, as the last axis."""
    x = as_value(a)
    first, second = axis_of(axis1, x.ndim, "diagonal"), axis_of(axis2, x.ndim, "diagonal")
    if first == second:
        msg = f"diagonal: axis1 and axis2 are both {first}{at_user_line()}."
        raise InvalidArgumentError(msg, axis1=axis1, axis2=axis2)
    rest = [i for i in range(x.ndim) if i not in (first, second)]
    x = tracing.transpose(x, [*rest, first, second])
    *batch, rows, columns = x.shape
    size = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    # Row by row, the elements of a diagonal are one row and one element apart.
    flat = tracing.reshape(x, (*batch, rows * columns))
    start = max(offset, 0) + max(-offset, 0) * columns if size else 0
    stop = start + (size - 1) * (columns + 1) + 1 if size else 0
    none = (0,) * len(batch)
    return tracing.slice_(flat, (*none, start), (*batch, stop), (1,) * len(batch) + (columns + 1,))


@operation(static=("k",))
def diag(v: Any, k: int = 0) -> Any:
    """Return the diagonal of a matrix, or the matrix with a vector as its diagonal."""
    x = as_value(v)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        msg = f"diag takes a vector or a matrix, not {x.aval}{at_user_line()}."
        raise InvalidArgumentError(msg, ndim=x.ndim)
    return _with_diagonal(x, k)


def _with_diagonal(x: Any, k: int) -> Any:
    n = x.shape[0]
    if n:
        # Row by row, n zeros lie between two elements of the diagonal.
        spaced = tracing.pad(x, tracing.constant(0, x.dtype), (0,), (0,), (n,))
        x = tracing.reshape(spaced, (n, n))
    else:
        x = tracing.reshape(x, (0, 0))
    below, right = max(-k, 0), max(k, 0)
    return tracing.pad(x, tracing.constant(0, x.dtype), (below, right), (right, below))


def diagflat(v: Any, k: int = 0) -> Any:
    """Return the matrix with the elements of an array as its diagonal."""
    return diag(ravel(array_of(v)), k)


@operation(static=("offset", "axis1", "axis2", "dtype"))
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Any:
    """Return the sum of a diagonal; its dtype is that of `sum`."""
    refuse_out(out, "trace")
    return total(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@operation(static=("wrap", "inplace"))
def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Any:
    """Return an array with other elements on its main diagonal.

    ``inplace`` must be False: arrays are immutable.
    """
    if inplace:
        msg = (
            f"fill_diagonal: arrays are immutable{at_user_line()}. Write "
            "a = fill_diagonal(a, val, inplace=False)."
        )
        raise InvalidArgumentError(msg, inplace=inplace)
    x, value = as_value(a), as_value(val)
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        msg = f"fill_diagonal: {x.aval} has no main diagonal{at_user_line()}."
        raise InvalidArgumentError(msg, shape=x.shape)
    columns = x.shape[-1]
    # Element by element in one dimension, those of the diagonal are one step apart.
    step = columns + 1 if x.ndim == 2 else sum(columns**i for i in range(x.ndim))
    end = x.size if wrap or x.ndim > 2 else min(x.size, columns * columns)
    place = tracing.iota((x.size,), 0, tracing.named("int32"))
    is_there = tracing.compare("EQ", tracing.binary("remainder", place, step), 0)
    is_there = tracing.binary("and", is_there, tracing.compare("LT", place, end))
    flat = tracing.reshape(convert(value, x.dtype), (value.size,))
    count = -(-end // step)
    if flat.size > 1:
        at = tracing.binary("divide", place, step)
        at = tracing.binary("remainder", at, flat.size)
        flat = tracing.take(flat, at, 0)
    elif not count:
        return x
    filled = tracing.select(is_there, flat, tracing.reshape(x, (x.size,)))
    return tracing.reshape(filled, x.shape)


# -- where they lie ------------------------------------------------------------------------------


def _indices(places: Any) -> tuple[Any, ...]:
    from devrt.numpy.creation import asarray

    return tuple(asarray(np.asarray(each, np.int32)) for each in places)


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """Return the indices of the main diagonal of an array of size ``n`` along each axis."""
    return _indices([np.arange(n)] * ndim)


def diag_indices_from(arr: Any) -> tuple[Any, ...]:
    """Return the indices of an array's main diagonal."""
    shape = shape_at(arr, "diag_indices_from")
    if len(shape) < 2 or len(set(shape)) > 1:
        msg = f"diag_indices_from: the shape {shape} is not of equal sizes{at_user_line()}."
        raise InvalidArgumentError(msg, shape=shape)
    return diag_indices(shape[0], len(shape))


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Return the rows and columns on and below the ``k``-th diagonal."""
    return _indices(np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """Return the rows and columns on and above the ``k``-th diagonal."""
    return _indices(np.triu_indices(n, k, m))


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """Return the indices of a matrix on and below its ``k``-th diagonal."""
    rows, columns = shape_at(arr, "tril_indices_from")
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Any, Any]:
    """Return the indices of a matrix on and above its ``k``-th diagonal."""
    rows, columns = shape_at(arr, "triu_indices_from")
    return triu_indices(rows, k, columns)


def mask_indices(n: int, mask_func: Any, k: int = 0) -> tuple[Any, ...]:
    """Return the indices at which a function of a matrix of ones, such as ``triu``, leaves them."""
    return _indices(np.nonzero(np.asarray(mask_func(np.ones((n, n), np.int32), k))))
