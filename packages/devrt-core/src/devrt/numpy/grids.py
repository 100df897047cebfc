"""Grids, triangles and progressions of arrays, by NumPy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.numpy.creation import linspace
from devrt.numpy.limits import as_dtype
from devrt.numpy.operands import full_like
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    at_user_line,
    binary,
    broadcast_in_dim,
    broadcast_to,
    compare,
    convert,
    inexact,
    iota,
    named,
    promote,
    reshape,
    result_type,
    select,
)

__all__ = ["geomspace", "indices", "ix_", "logspace", "meshgrid", "tril", "triu", "vander"]


@operation(static=("k",))
def tril(m: Any, /, k: int = 0) -> Any:
    """Return what lies at and below the ``k``-th diagonal of the last two dimensions, else 0."""
    return _triangle("tril", "LE", m, k)


@operation(static=("k",))
def triu(m: Any, /, k: int = 0) -> Any:
    """Return what lies at and above the ``k``-th diagonal of the last two dimensions, else 0."""
    return _triangle("triu", "GE", m, k)


def _triangle(name: str, direction: str, m: Any, k: int) -> Any:
    m = as_value(m)
    if m.ndim < 2:
        msg = f"{name} of shape {m.shape}{at_user_line()}: it takes two dimensions or more."
        raise InvalidArgumentError(msg, operation=name, shape=m.shape)
    down, along = (iota(m.shape[-2:], i, named("int32")) for i in (0, 1))
    inside = compare(direction, binary("subtract", along, down), k)
    return select(broadcast_to(inside, m.shape), m, full_like(m, 0))


def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> list[Any]:
    """Return arrays of one dimension, each spread over a grid of all.

    ``indexing`` is ``"xy"``, the first array along the second dimension, or ``"ij"``, in order.
    """
    if indexing not in ("xy", "ij"):
        msg = f"meshgrid: the indexing is 'xy' or 'ij', not {indexing!r}."
        raise InvalidArgumentError(msg, indexing=indexing)
    return list(_meshgrid(list(xi), sparse, indexing)) if xi else []


@operation(static=("sparse", "indexing"))
def _meshgrid(xi: Any, sparse: bool, indexing: str) -> list[Any]:
    values = [as_value(x) for x in xi]
    order = list(range(len(values)))
    if indexing == "xy" and len(order) > 1:
        order[0], order[1] = 1, 0
    flat = [reshape(value, (value.size,)) for value in values]
    shape = [0] * len(flat)
    for place, value in zip(order, flat, strict=True):
        shape[place] = value.size
    made = []
    for place, value in zip(order, flat, strict=True):
        own = [1] * len(flat)
        own[place] = value.size
        spread = reshape(value, tuple(own))
        made.append(spread if sparse else broadcast_to(spread, tuple(shape)))
    return made


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """Return for each dimension the positions along it: in one array, or ``sparse`` in several."""
    target = as_dtype(dtype) or named("int32")
    return _indices(tuple(dimensions), target, sparse)


@operation(static=("sizes", "dtype", "sparse"))
def _indices(sizes: tuple[int, ...], dtype: np.dtype[Any], sparse: bool) -> Any:
    from devrt.numpy.staged import stacked

    if not sparse:
        return stacked([iota(sizes, i, dtype) for i in range(len(sizes))])
    rank = len(sizes)
    shapes = [tuple(n if i == d else 1 for i in range(rank)) for d, n in enumerate(sizes)]
    return tuple(iota(shape, d, dtype) for d, shape in enumerate(shapes))


def ix_(*args: Any) -> tuple[Any, ...]:
    """Return arrays of positions, each along a dimension of its own: ``x[ix_(rows, columns)]``."""
    from devrt import numpy

    given = [numpy.asarray(each) for each in args]
    arrays = [numpy.flatnonzero(each) if each.dtype == np.bool_ else each for each in given]
    return tuple(_along(each, i, len(arrays)) for i, each in enumerate(arrays))


@operation(static=("place", "rank"))
def _along(x: Any, place: int, rank: int) -> Any:
    return broadcast_in_dim(x, tuple(x.size if i == place else 1 for i in range(rank)), (place,))


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """Make ``num`` values from ``base**start`` to ``base**stop``, evenly spaced as logarithms."""
    from devrt import numpy

    target = as_dtype(dtype) or inexact(result_type(start, stop, base)[0])
    exponents = linspace(start, stop, num, endpoint, axis=axis)
    return numpy.astype(numpy.float_power(base, exponents), target)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    """Make ``num`` values from one to another, each the one before times the same factor."""
    from devrt import numpy

    target = as_dtype(dtype) or inexact(result_type(start, stop)[0])
    sign = numpy.sign(start)
    first, last = numpy.log10(start / sign), numpy.log10(stop / sign)
    made = numpy.power(10.0, linspace(first, last, num, endpoint, axis=axis))
    return numpy.astype(sign * made, target)


@operation(static=("N", "increasing"))
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:  # noqa: N803
    """Return the powers of each element in a row: from the highest, or ``increasing``."""
    x = as_value(x)
    if x.ndim != 1:
        msg = f"vander of shape {x.shape}{at_user_line()}: it takes one dimension."
        raise InvalidArgumentError(msg, operation="vander", shape=x.shape)
    count = x.size if N is None else N
    shape = (x.size, count)
    powers = iota(shape, 1, named("int32"))
    if not increasing:
        powers = binary("subtract", count - 1, powers)
    (x,) = promote(x, dtype=x.dtype if x.dtype.name != "bool" else named("int32"))
    rows = broadcast_in_dim(x, shape, (0,))
    return binary("power", rows, convert(powers, rows.dtype))
