"""Arrays with parts added, taken away or cut off."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import array_of, axis_of, shape_at, shape_of
from devrt.numpy.joining import concatenate
from devrt.numpy.shaping import moveaxis, ravel, reshape
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, convert

__all__ = ["append", "delete", "insert", "resize", "trim_zeros"]


def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """Return an array with others after it along an axis; None: its elements and theirs."""
    return concatenate([array_of(arr), array_of(values)], axis)


def _along(arr: Any, axis: int | None, operation: str) -> tuple[Any, int]:
    x = array_of(arr)
    if axis is None:
        return ravel(x), 0
    return x, axis_of(axis, len(shape_at(x, operation)), operation)


def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """Return an array without parts along an axis; None: without some of its elements.

    ``obj`` is an integer, a slice, indices, or a mask; its values must be known in a trace.
    """
    x, dimension = _along(arr, axis, "delete")
    size = x.shape[dimension]
    chosen = obj if isinstance(obj, slice) else np.asarray(obj)
    try:
        kept = np.delete(np.arange(size, dtype=np.int32), chosen)
    except (IndexError, ValueError) as error:
        msg = f"delete: {obj!r} is no index of an axis of size {size}{at_user_line()}."
        raise InvalidArgumentError(msg, index=obj, size=size) from error
    return _parts(x, kept, dimension)


@operation(static=("axis",))
def _parts(x: Any, places: Any, axis: int) -> Any:
    x = as_value(x)
    if not len(places):
        return tracing.slice_(x, (0,) * x.ndim, _resized(x.shape, axis, 0))
    return tracing.take(x, places, axis)


def _resized(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    return tuple(size if i == axis else n for i, n in enumerate(shape))


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """Return an array with parts before others along an axis; None: before some elements.

    ``obj`` is an integer, a slice or indices of the array as it is; its values must be known in a
    trace.
    """
    x, dimension = _along(arr, axis, "insert")
    size = x.shape[dimension]
    given = np.arange(size)[obj] if isinstance(obj, slice) else np.asarray(obj)
    places = np.atleast_1d(np.nonzero(given)[0] if given.dtype == bool else given)
    if places.size and not (-size <= places.min() and places.max() <= size):
        msg = f"insert: {obj!r} is no index of an axis of size {size}{at_user_line()}."
        raise InvalidArgumentError(msg, index=obj, size=size)
    count = None if given.ndim == 0 else len(places)
    new, count = _inserted(x, array_of(values), dimension, count)
    places = np.broadcast_to(np.where(places < 0, places + size, places), (count,))
    # Where each part of the result lies in the array with the new parts after it.
    order = np.insert(np.arange(size), places, np.arange(count) + size)
    return _parts(concatenate([x, new], dimension), order.astype(np.int32), dimension)


@operation(static=("axis", "count"))
def _as_parts(x: Any, values: Any, axis: int, count: int) -> Any:
    x, new = as_value(x), convert(as_value(values), as_value(x).dtype)
    return tracing.broadcast_to(new, _resized(x.shape, axis, count))


def _inserted(x: Any, values: Any, axis: int, count: int | None) -> tuple[Any, int]:
    """Return new parts in the shape that they have, and how many they are."""
    shape = shape_at(values, "insert")
    if count is None:
        # At one index a value has the parts first, as assignment to x[index] takes it.
        if len(shape) == len(x.shape) and shape:
            values = moveaxis(values, 0, axis)
            count = values.shape[axis]
        else:
            if shape:
                values = reshape(values, (1,) * (len(x.shape) - 1 - len(shape)) + shape)
                values = reshape(values, _expanded(values.shape, axis))
            count = 1
    return _as_parts(x, values, axis, count), count


def _expanded(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], 1, *shape[axis:])


@operation(static=("new_shape",))
def resize(a: Any, new_shape: Any) -> Any:
    """Return an array of another shape, with the elements again and again."""
    x, shape = as_value(a), shape_of(new_shape)
    size = int(np.prod(shape, dtype=np.int64))
    if not x.size:
        return tracing.constant(0, x.dtype, shape)
    flat = tracing.reshape(x, (x.size,))
    if size > x.size:
        flat = tracing.concatenate([flat] * -(-size // x.size), 0)
    return tracing.reshape(tracing.slice_(flat, (0,), (size,)), shape)


def trim_zeros(filt: Any, trim: str = "fb") -> Any:
    """Return a vector without the zeros at its front, ``f``, and its back, ``b``.

    Its length depends on the elements: it cannot be traced.
    """
    x = array_of(filt)
    nonzero = np.flatnonzero(np.asarray(x))
    size = shape_at(x, "trim_zeros")[0]
    wanted = trim.lower()
    if not nonzero.size:
        return _cut(x, start=0, stop=0)
    start = int(nonzero[0]) if "f" in wanted else 0
    return _cut(x, start=start, stop=int(nonzero[-1]) + 1 if "b" in wanted else size)


@operation(static=("start", "stop"))
def _cut(x: Any, start: int, stop: int) -> Any:
    return tracing.slice_(as_value(x), (operator.index(start),), (operator.index(stop),))
