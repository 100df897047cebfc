"""How many elements there are of each value, or within bins."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt import tracing
from devrt.errors import ConcretizationTypeError, InvalidArgumentError
from devrt.numpy.arguments import array_of, shape_at
from devrt.numpy.calculus import diff
from devrt.numpy.joining import stack, unstack
from devrt.numpy.reductions import max as greatest
from devrt.numpy.reductions import min as least
from devrt.numpy.reductions import sum as total_of
from devrt.numpy.searching import searchsorted
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, binary, compare, convert, inexact, named, select

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


@operation(static=("length",))
def _counts(x: Any, weights: Any, length: int) -> Any:
    """Return the sums of weights of each index below a length; others are left out."""
    index = as_value(x)
    index = tracing.reshape(index, (index.size, 1))
    w = tracing.constant(1, named("int32")) if weights is None else as_value(weights)
    updates = tracing.broadcast_to(
        tracing.reshape(w, (w.size,)) if w.ndim else w, (index.shape[0],)
    )
    return tracing.scatter(
        tracing.constant(0, w.dtype, (length,)),
        index,
        updates,
        "add",
        update_window_dims=(),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
        index_vector_dim=1,
    )


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Any:
    """Return how often each integer from 0 is there, or the sums of their weights.

    In a trace ``length`` is how many integers are counted; what is beyond them is left out.
    """
    values = array_of(x)
    shape = shape_at(values, "bincount")
    if len(shape) != 1 or values.dtype.kind not in "iu":
        msg = f"bincount takes a vector of integers, not {values.dtype} of the shape {shape}"
        raise InvalidArgumentError(f"{msg}{at_user_line()}.", shape=shape)
    if length is None:
        if isinstance(values, tracing.Tracer):
            msg = (
                f"bincount: the length of the result is not known while tracing{at_user_line()}. "
                "Give it as length=."
            )
            raise ConcretizationTypeError(msg)
        if shape[0] and int(least(values)) < 0:
            msg = f"bincount takes integers from 0, and there are negative ones{at_user_line()}."
            raise InvalidArgumentError(msg, operation="bincount")
        length = max(operator.index(minlength), int(greatest(values)) + 1 if shape[0] else 0)
    return _counts(values, weights, length=length)


@operation(static=("bins",))
def _even_edges(a: Any, bounds: Any, bins: int) -> Any:
    """Return evenly spaced edges between two bounds, or around all elements."""
    x = as_value(a)
    dtype = inexact(x.dtype)
    if bounds is not None:
        low, high = (convert(as_value(bound), dtype) for bound in bounds)
    elif not x.size:
        low, high = (tracing.constant(float(n), dtype) for n in (0, 1))
    else:
        low, high = (convert(each, dtype) for each in (least(x), greatest(x)))
    is_one = compare("EQ", low, high)
    low = select(is_one, binary("subtract", low, 0.5), low)
    high = select(is_one, binary("add", high, 0.5), high)
    place = convert(tracing.iota((bins + 1,), 0, named("int32")), dtype)
    step = binary("divide", place, float(bins))
    width = binary("subtract", high, low)
    edges = binary("add", low, binary("multiply", step, width))
    is_last = compare("EQ", place, float(bins))
    return select(is_last, high, edges)


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Return the edges of bins: so many of one width around all elements, or those given.

    NumPy's names of rules that choose how many (``"auto"`` and its like) are not known.
    """
    if isinstance(bins, str):
        msg = f"histogram: the rule {bins!r} is not known{at_user_line()}. Give a number of bins."
        raise InvalidArgumentError(msg, bins=bins)
    if np.ndim(bins) if not hasattr(bins, "ndim") else bins.ndim:
        return array_of(bins)
    count = operator.index(bins)
    if count < 1:
        msg = f"histogram: the number of bins is 1 or more, not {count}{at_user_line()}."
        raise InvalidArgumentError(msg, bins=count)
    return _even_edges(array_of(a), None if range is None else tuple(range), bins=count)


def _bin_of(values: Any, edges: Any) -> Any:
    """Return the bin of each value; one that there is not for what is outside or NaN."""
    size = edges.shape[0] - 1
    place = binary("subtract", searchsorted(edges, values, side="right"), 1)
    last = tracing.slice_(edges, (size,), (size + 1,))
    # The last bin holds both of its edges.
    place = select(compare("EQ", values, last), size - 1, place)
    is_inside = binary("and", compare("GE", place, 0), compare("LT", place, size))
    return select(is_inside, place, size)


@operation(static=("density",))
def _histogram(a: Any, edges: Any, weights: Any, density: bool) -> Any:
    values, edges = tracing.promote(a, edges)
    values = tracing.reshape(values, (values.size,))
    size = edges.shape[0] - 1
    counted = _counts(_bin_of(values, edges), weights, length=size + 1)
    counted = tracing.slice_(counted, (0,), (size,))
    if not density:
        return counted
    real = inexact(edges.dtype)
    counted = convert(counted, real)
    width = convert(diff(edges), real)
    return binary("divide", binary("divide", counted, width), total_of(counted))


def histogram(
    a: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Any, Any]:
    """Return how many elements are in each bin, int32, and the bins' edges.

    With ``weights`` their sums; with ``density`` such that the area is one. A bin holds its lower
    edge, the last one both.
    """
    edges = histogram_bin_edges(a, bins, range, weights)
    return _histogram(array_of(a), edges, weights, density=bool(density)), edges


@operation(static=("density",))
def _histogram_of_several(sample: Any, edges: Sequence[Any], weights: Any, density: bool) -> Any:
    x = as_value(sample)
    sizes = [edge.shape[0] - 1 for edge in map(as_value, edges)]
    place = tracing.constant(0, named("int32"), (x.shape[0],))
    is_outside = tracing.constant(False, named("bool"), (x.shape[0],))
    for i, (edge, size) in enumerate(zip(edges, sizes, strict=True)):
        column, bounds = tracing.promote(tracing.index_in_dim(x, i, 1), edge)
        at = _bin_of(column, bounds)
        is_outside = binary("or", is_outside, compare("EQ", at, size))
        place = binary("add", binary("multiply", place, size), at)
    total = int(np.prod(sizes))
    place = select(is_outside, total, place)
    counted = tracing.slice_(_counts(place, weights, length=total + 1), (0,), (total,))
    counted = tracing.reshape(counted, tuple(sizes))
    counted = convert(counted, inexact(tracing.result_type(x, counted)[0]))
    if not density:
        return counted
    made = binary("divide", counted, total_of(counted))
    for i, edge in enumerate(edges):
        width = convert(diff(as_value(edge)), made.dtype)
        made = binary("divide", made, tracing.broadcast_in_dim(width, made.shape, (i,)))
    return made


def histogramdd(
    sample: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Any, list[Any]]:
    """Return how many rows of a matrix are in each bin of several dimensions, and their edges."""
    x = array_of(sample)
    shape = shape_at(x, "histogramdd")
    if len(shape) != 2:
        msg = f"histogramdd takes rows of coordinates, not the shape {shape}{at_user_line()}."
        raise InvalidArgumentError(msg, shape=shape)
    each = list(bins) if isinstance(bins, Sequence) else [bins] * shape[1]
    bounds = [None] * shape[1] if range is None else list(range)
    columns = unstack(x, axis=1)
    edges = [
        histogram_bin_edges(column, count, bound)
        for column, count, bound in zip(columns, each, bounds, strict=True)
    ]
    return _histogram_of_several(x, edges, weights, density=bool(density)), edges


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, weights: Any = None, density: bool = False
) -> tuple[Any, Any, Any]:
    """Return how many points of a plane are in each bin, and the edges along x and y."""
    is_pair = isinstance(bins, Sequence) and len(bins) == 2
    each = bins if is_pair else (bins, bins)
    counted, (first, second) = histogramdd(stack([x, y], axis=1), each, range, weights, density)
    return counted, first, second
