"""Distinct elements, and arrays as sets of elements.

Lengths of results depend on elements. Outside of a trace they are read; in a trace ``size`` says
how long a result is: what is beyond it is cut off, and what is missing is filled.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from devrt import tracing
from devrt.errors import ConcretizationTypeError
from devrt.numpy.arguments import array_of, axis_of, shape_at
from devrt.numpy.joining import concatenate
from devrt.numpy.reductions import sum as count_of
from devrt.numpy.searching import isin
from devrt.numpy.shaping import moveaxis, ravel, reshape
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, binary, compare, convert, named, promote, select

__all__ = [
    "intersect1d",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


class UniqueAllResult(NamedTuple):
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


@operation(static=("equal_nan",))
def _distinct(x: Any, equal_nan: bool) -> tuple[Any, ...]:
    """Return the distinct parts along the first axis, in order, then others; and how many.

    With them the index of the first of each, how often it is there, and for each part of ``x``
    which one it is.
    """
    x = as_value(x)
    size = x.shape[0]
    rows = tracing.reshape(x, (size, x.size // max(1, size)))
    index = tracing.iota((size,), 0, named("int32"))
    columns = [tracing.index_in_dim(rows, i, 1) for i in range(rows.shape[1])]
    *_, order = tracing.sort([*columns, index], 0, num_keys=len(columns))
    ordered = [tracing.take(column, order, 0) for column in columns]
    is_new = _starts(ordered, equal_nan)
    which = tracing.cumulative("add", convert(is_new, named("int32")), 0, 0)
    count = tracing.index_in_dim(which, size - 1)
    which = binary("subtract", which, 1)
    inverse = tracing.sort([order, which], 0)[1]
    # The first ones come first, in their order.
    late = convert(tracing.unary("not", is_new), named("int32"))
    _, starts, first = tracing.sort([late, index, order], 0)
    following = tracing.concatenate(
        [tracing.slice_(starts, (1,), (size,)), tracing.constant(size, named("int32"), (1,))], 0
    )
    is_last = compare("EQ", index, binary("subtract", count, 1))
    counts = binary("subtract", select(is_last, size, following), starts)
    return tracing.take(x, first, 0), first, inverse, counts, count


def _starts(columns: list[Any], equal_nan: bool) -> Any:
    """Return where a row is another one than that before it."""
    size = columns[0].shape[0]
    changed = None
    for column in columns:
        here, before = (tracing.slice_(column, (i,), (size - 1 + i,)) for i in (1, 0))
        differs = compare("NE", here, before)
        if equal_nan and column.dtype.kind not in "biu":
            nan = binary("and", compare("NE", here, here), compare("NE", before, before))
            differs = binary("and", differs, tracing.unary("not", nan))
        changed = differs if changed is None else binary("or", changed, differs)
    return tracing.concatenate([tracing.constant(True, named("bool"), (1,)), changed], 0)


def _unique(
    x: Any, size: int | None, fill_value: Any, equal_nan: bool
) -> tuple[Any, Any, Any, Any]:
    """Return the distinct parts along the first axis, of the length that there is or is given."""
    if not math.prod(x.shape):
        fill = 0 if fill_value is None else fill_value
        values, first, inverse, counts = _none(x, fill, size=size or 0)
        return values, first, inverse, counts
    values, first, inverse, counts, count = _distinct(x, equal_nan=equal_nan)
    if size is None:
        if isinstance(count, tracing.Tracer):
            msg = (
                "unique: how many distinct elements there are is not known while tracing"
                f"{at_user_line()}. Give the length of the result as size=."
            )
            raise ConcretizationTypeError(msg)
        size = int(count)
        fill_value = 0  # nothing is missing
    values, first, counts = _sized(values, first, counts, count, fill_value, size=size)
    return values, first, inverse, counts


@operation(static=("size",))
def _none(x: Any, fill_value: Any, size: int) -> tuple[Any, ...]:
    x = as_value(x)
    index = tracing.constant(0, named("int32"), (size,))
    fill = convert(as_value(fill_value), x.dtype)
    values = tracing.broadcast_to(fill, (size, *x.shape[1:]))
    return values, index, tracing.constant(0, named("int32"), (x.shape[0],)), index


@operation(static=("size",))
def _sized(
    values: Any, first: Any, counts: Any, count: Any, fill_value: Any, size: int
) -> tuple[Any, Any, Any]:
    """Return results of a length: cut, or filled; by default with the first element."""
    values, first, counts = map(as_value, (values, first, counts))
    if not values.shape[0]:  # there is no first element: zeros are one
        values, first, counts = (_length(each, 1) for each in (values, first, counts))
    if fill_value is None:
        fill = tracing.slice_(values, (0,) * values.ndim, (1, *values.shape[1:]))
    else:
        fill = convert(as_value(fill_value), values.dtype)
    filled = [_length(each, size) for each in (values, first, counts)]
    index = tracing.iota((size,), 0, named("int32"))
    is_there = compare("LT", index, count)
    spread = tracing.broadcast_in_dim(is_there, filled[0].shape, (0,))
    start = tracing.slice_(first, (0,), (1,))
    return (
        select(spread, filled[0], tracing.broadcast_to(fill, filled[0].shape)),
        select(is_there, filled[1], start),
        select(is_there, filled[2], 0),
    )


def _length(x: Any, size: int) -> Any:
    high = (size - x.shape[0],) + (0,) * (x.ndim - 1)
    return tracing.pad(x, 0, (0,) * x.ndim, high)


def unique(
    ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, *, equal_nan: bool = True, size: int | None = None,
    fill_value: Any = None, sorted: bool = True,
) -> Any:  # fmt: skip
    """Return the distinct elements in order, or the distinct parts along an axis.

    With them, as requested, the index of the first of each, which one each element is, and how
    often each is there. In a trace ``size`` is how many are returned.
    """
    del sorted  # they are in any case
    x = array_of(ar)
    shape = shape_at(x, "unique")
    if axis is None:
        flat, place = ravel(x), 0
    else:
        place = axis_of(axis, len(shape), "unique")
        flat = moveaxis(x, place, 0)
    values, first, inverse, counts = _unique(flat, size, fill_value, equal_nan)
    found = [values if axis is None else moveaxis(values, 0, place)]
    found += [first] * return_index
    if return_inverse:
        found.append(reshape(inverse, shape) if axis is None else inverse)
    found += [counts] * return_counts
    return found[0] if len(found) == 1 else tuple(found)


def unique_all(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """Return the distinct elements, where each is first, which one each is, and how often."""
    return UniqueAllResult(
        *unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_counts(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueCountsResult:
    """Return the distinct elements, and how often each is there."""
    return UniqueCountsResult(
        *unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_inverse(
    x: Any, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverseResult:
    """Return the distinct elements, and which one each element is."""
    return UniqueInverseResult(
        *unique(x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    )


def unique_values(x: Any, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Return the distinct elements."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# -- sets ----------------------------------------------------------------------------------------


def _kept(x: Any, mask: Any, operation: str, size: int | None, fill_value: Any) -> Any:
    """Return the elements where a mask is true: those of a length in a trace."""
    moved, count = _moved(x, mask)
    if size is None:
        if isinstance(count, tracing.Tracer):
            msg = (
                f"{operation}: the length of the result is not known while tracing"
                f"{at_user_line()}. Give it as size=."
            )
            raise ConcretizationTypeError(msg)
        size = int(count)
    fill = 0 if fill_value is None else fill_value
    return _sized(moved, moved, moved, count, fill, size=size)[0]


@operation
def _moved(x: Any, mask: Any) -> tuple[Any, Any]:
    """Return elements with those where a mask is true first, and how many they are."""
    late = convert(tracing.unary("not", as_value(mask)), named("int32"))
    moved = tracing.sort([late, x], 0)[1]
    return moved, count_of(convert(as_value(mask), named("int32")))


def union1d(ar1: Any, ar2: Any, *, size: int | None = None, fill_value: Any = None) -> Any:
    """Return the distinct elements of two arrays, in order."""
    return unique(concatenate([ar1, ar2], None), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """Return the distinct elements of one array that are not in the other, in order."""
    first = ravel(array_of(ar1))
    if not assume_unique:
        first = unique(first, size=None if size is None else first.shape[0])
    is_kept = isin(first, ar2, invert=True)
    if size is not None and not assume_unique:
        is_kept = _first_only(first, is_kept)
    return _kept(first, is_kept, "setdiff1d", size, fill_value)


@operation
def _first_only(ordered: Any, mask: Any) -> Any:
    """Return a mask without elements that were filled in: they are equal to the first one."""
    x, mask = as_value(ordered), as_value(mask)
    first = tracing.slice_(x, (0,), (min(1, x.shape[0]),))
    again = compare("NE", tracing.iota(x.shape, 0, named("int32")), 0)
    repeated = binary("and", again, compare("EQ", x, tracing.broadcast_to(first, x.shape)))
    return binary("and", mask, tracing.unary("not", repeated))


def intersect1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False, *,
    size: int | None = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """Return the distinct elements that are in both arrays, in order.

    With ``return_indices``, also where each is first in either.
    """
    del assume_unique
    x, y = (ravel(array_of(each)) for each in (ar1, ar2))
    is_traced = size is not None
    x, first, *_ = unique(x, True, True, size=x.shape[0] if is_traced else None)
    y, other, *_ = unique(y, True, True, size=y.shape[0] if is_traced else None)
    x, y = _alike(x, y)
    mask = isin(x, y)
    mask = _first_only(x, mask) if is_traced else mask
    found = _kept(x, mask, "intersect1d", size, fill_value)
    if not return_indices:
        return found
    theirs = isin(y, x)
    theirs = _first_only(y, theirs) if is_traced else theirs
    at = _kept(first, mask, "intersect1d", size, None)
    return found, at, _kept(other, theirs, "intersect1d", size, None)


@operation
def _alike(x: Any, y: Any) -> list[Any]:
    return promote(x, y)


def setxor1d(
    ar1: Any, ar2: Any, assume_unique: bool = False, *, size: int | None = None,
    fill_value: Any = None,
) -> Any:  # fmt: skip
    """Return the distinct elements that are in one of two arrays only, in order.

    It is not for traces, which do not know how many there are.
    """
    del assume_unique
    x, y = (ravel(array_of(each)) for each in (ar1, ar2))
    both = concatenate([x, y])
    mask = concatenate([isin(x, y, invert=True), isin(y, x, invert=True)])
    return unique(_kept(both, mask, "setxor1d", None, None), size=size, fill_value=fill_value)
