"""Operations that move elements without changing them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.tracing.aval import shaped
from devrt.tracing.frames import at_user_line
from devrt.tracing.trace import as_value, constant, emit_one

__all__ = [
    "broadcast_in_dim",
    "broadcast_shapes",
    "broadcast_to",
    "concatenate",
    "expand_dims",
    "index_in_dim",
    "iota",
    "pad",
    "reshape",
    "reverse",
    "slice_",
    "slice_in_dim",
    "squeeze",
    "transpose",
]

Shape = tuple[int, ...]


def broadcast_shapes(*shapes: Shape, operation: str = "this operation") -> Shape:
    """Return the shape that all broadcast to, by NumPy's rule.

    Raises
    ------
    InvalidArgumentError
        If there is none.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        different = {size for size in sizes if size != 1}
        if len(different) > 1:
            shown = " and ".join(str(tuple(shape)) for shape in shapes)
            msg = f"{operation}: the shapes {shown} do not broadcast together{at_user_line()}."
            raise InvalidArgumentError(msg, shapes=shapes)
        result.append(different.pop() if different else 1)
    return tuple(result)


def broadcast_in_dim(x: Any, shape: Shape, dimensions: Sequence[int]) -> Any:
    """Return a value repeated along new dimensions, and those of size 1.

    ``dimensions`` has for each dimension of ``x`` the one of the result.
    """
    x = as_value(x)
    if x.aval.shape == shape:
        return x
    result = shaped(tuple(shape), x.aval.dtype, x.aval.weak_type)
    attributes = {"broadcast_dimensions": tuple(dimensions)}
    return emit_one("stablehlo.broadcast_in_dim", (x,), result, attributes)


def broadcast_to(x: Any, shape: Shape) -> Any:
    """Return a value broadcast to a shape by NumPy's rule, which the caller has checked."""
    x = as_value(x)
    rank = len(shape)
    return broadcast_in_dim(x, shape, range(rank - len(x.aval.shape), rank))


def reshape(x: Any, shape: Shape) -> Any:
    """Return the elements, row by row, in another shape of as many."""
    x = as_value(x)
    if x.aval.shape == shape:
        return x
    return emit_one("stablehlo.reshape", (x,), shaped(tuple(shape), x.aval.dtype, x.aval.weak_type))


def expand_dims(x: Any, dimension: int) -> Any:
    """Return a value with a new dimension of size 1, which is counted in the result."""
    shape = as_value(x).aval.shape
    return reshape(x, (*shape[:dimension], 1, *shape[dimension:]))


def squeeze(x: Any, dimension: int) -> Any:
    """Return a value without a dimension, which is of size 1."""
    shape = as_value(x).aval.shape
    return reshape(x, (*shape[:dimension], *shape[dimension + 1 :]))


def transpose(x: Any, permutation: Sequence[int]) -> Any:
    """Return a value whose dimension ``i`` is the operand's ``permutation[i]``."""
    x = as_value(x)
    if list(permutation) == list(range(len(permutation))):
        return x
    shape = tuple(x.aval.shape[i] for i in permutation)
    result = shaped(shape, x.aval.dtype, x.aval.weak_type)
    return emit_one("stablehlo.transpose", (x,), result, {"permutation": tuple(permutation)})


def slice_(x: Any, starts: Shape, limits: Shape, strides: Shape | None = None) -> Any:
    """Return the elements from ``starts`` to before ``limits``, every ``strides``-th."""
    x = as_value(x)
    strides = strides or (1,) * len(starts)
    shape = tuple(
        max(0, math.ceil((limit - start) / stride))
        for start, limit, stride in zip(starts, limits, strides, strict=True)
    )
    if shape == x.aval.shape:
        return x
    attributes = {
        "start_indices": tuple(starts),
        "limit_indices": tuple(limits),
        "strides": tuple(strides),
    }
    result = shaped(shape, x.aval.dtype, x.aval.weak_type)
    return emit_one("stablehlo.slice", (x,), result, attributes)


def slice_in_dim(x: Any, start: int, limit: int, dimension: int, stride: int = 1) -> Any:
    """Return the elements from ``start`` to before ``limit`` along one dimension."""
    x = as_value(x)
    starts, limits, strides = [0] * x.aval.ndim, list(x.aval.shape), [1] * x.aval.ndim
    starts[dimension], limits[dimension], strides[dimension] = start, limit, stride
    return slice_(x, tuple(starts), tuple(limits), tuple(strides))


def index_in_dim(x: Any, index: int, dimension: int = 0) -> Any:
    """Return what is at a position along a dimension, without that."""
    return squeeze(slice_in_dim(x, index, index + 1, dimension), dimension)


def reverse(x: Any, dimensions: Sequence[int]) -> Any:
    """Return a value with the order of some dimensions reversed."""
    x = as_value(x)
    if not dimensions:
        return x
    return emit_one("stablehlo.reverse", (x,), x.aval, {"dimensions": tuple(dimensions)})


def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Return values of one dtype, one after the other along a dimension."""
    values = [as_value(x) for x in operands]
    if len(values) == 1:
        return values[0]
    shape = list(values[0].aval.shape)
    shape[dimension] = sum(value.aval.shape[dimension] for value in values)
    is_weak = all(value.aval.weak_type for value in values)
    result = shaped(tuple(shape), values[0].aval.dtype, is_weak)
    return emit_one("stablehlo.concatenate", values, result, {"dimension": dimension})


def pad(x: Any, value: Any, low: Shape, high: Shape, interior: Shape | None = None) -> Any:
    """Return a value with ``value`` (a scalar of its dtype) around and between its elements.

    A negative width takes elements away.
    """
    x = as_value(x)
    interior = interior or (0,) * len(low)
    if not any((*low, *high, *interior)):
        return x
    shape = tuple(
        a + n + b + max(0, n - 1) * i
        for a, n, b, i in zip(low, x.aval.shape, high, interior, strict=True)
    )
    attributes = {
        "edge_padding_low": tuple(low),
        "edge_padding_high": tuple(high),
        "interior_padding": tuple(interior),
    }
    fill = value if hasattr(value, "aval") else constant(value, x.aval.dtype)
    result = shaped(shape, x.aval.dtype, x.aval.weak_type)
    return emit_one("stablehlo.pad", (x, fill), result, attributes)


def iota(shape: Shape, dimension: int, dtype: np.dtype[Any]) -> Any:
    """Return the positions along a dimension."""
    attributes = {"iota_dimension": dimension}
    return emit_one("stablehlo.iota", (), shaped(tuple(shape), dtype), attributes)
