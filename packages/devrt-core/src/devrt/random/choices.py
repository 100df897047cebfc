"""Random integers and orders."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from devrt.errors import InvalidTypeError
from devrt.numpy.arguments import axis_of, shape_of
from devrt.programs.eager import operation
from devrt.random.keys import raw_key, split_words
from devrt.random.samplers import Shape, check_shape
from devrt.random.threefry import random_bits
from devrt.tracing import (
    as_value,
    clamp,
    compare,
    constant,
    convert,
    dtype_of,
    index_in_dim,
    iota,
    named,
    nary,
    select,
    sort,
    take,
)

__all__ = ["permutation", "randint"]


def randint(key: Any, shape: Shape, minval: Any, maxval: Any, dtype: Any = int) -> Any:
    """Return random integers from ``minval`` to below ``maxval``."""
    found = dtype_of(dtype)
    if found.name not in _INTEGERS:
        msg = f"randint: dtype must be of integers, of 8 to 64 bits, and is {found.name}."
        raise InvalidTypeError(msg, dtype=found.name)
    given = shape_of(shape)
    check_shape("randint", given, np.shape(minval), np.shape(maxval))
    low, high = _bound(minval), _bound(maxval)
    return integers_between(raw_key(key, "randint"), low, high, given, found)


_INTEGERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))


def _bound(x: Any) -> Any:
    """Return a bound that may be beyond 32 bits with a dtype that holds it."""
    if isinstance(x, int) and not isinstance(x, np.generic):
        return np.asarray(x, np.int64) if -(2**63) <= x < 2**63 else np.asarray(x, np.uint64)
    return x


@operation(static=("shape", "dtype"))
def integers_between(
    data: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    drawn = dtype if dtype.itemsize >= 4 else named("int32")
    limits = np.iinfo(dtype)
    low, high = (_integer(as_value(bound)) for bound in (low, high))
    if drawn is not dtype:
        low = _clipped(low, drawn, limits.min, limits.max)
        high = _clipped(high, drawn, limits.min, limits.max + 1)
    beyond = compare("GT", high, _largest(high.aval.dtype, np.iinfo(drawn).max))
    limits = np.iinfo(drawn)
    low, high = (_clipped(bound, drawn, limits.min, limits.max) for bound in (low, high))
    return convert(_integers(as_value(data), low, high, beyond, shape, drawn), dtype)


def _integer(x: Any) -> Any:
    return convert(x, x.aval.dtype if x.aval.dtype.kind in "iu" else named("int32"))


def _largest(dtype: np.dtype[Any], value: int) -> Any:
    return constant(min(value, int(np.iinfo(dtype).max)), dtype)


def _clipped(x: Any, dtype: np.dtype[Any], low: int, high: int) -> Any:
    """Return integers between two bounds, in another dtype."""
    own = np.iinfo(x.aval.dtype)
    bounds = max(low, int(own.min)), min(high, int(own.max))
    least, most = (constant(bound, x.aval.dtype) for bound in bounds)
    return convert(clamp(least, x, most), dtype)


def _integers(
    data: Any, low: Any, high: Any, beyond: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """Return integers between bounds; ``beyond``: the upper one is past the dtype's largest."""
    unsigned = named(f"uint{dtype.itemsize * 8}")
    keys = split_words(data, (2,))
    higher, lower = (random_bits(index_in_dim(keys, i), unsigned, shape) for i in (0, 1))
    one = constant(1, unsigned)
    span = convert(nary("subtract", high, low), unsigned)
    span = select(compare("LE", high, low), one, span)
    is_whole = nary("and", beyond, compare("GT", high, low))
    span = select(is_whole, nary("add", span, one), span)
    factor = nary("remainder", constant(2 ** (dtype.itemsize * 4), unsigned), span)
    factor = nary("remainder", nary("multiply", factor, factor), span)
    offset = nary("multiply", nary("remainder", higher, span), factor)
    offset = nary("add", offset, nary("remainder", lower, span))
    return nary("add", low, convert(nary("remainder", offset, span), dtype))


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """Return the elements of an array, or the integers below ``x``, in a random order.

    Parameters
    ----------
    key
        A key.
    x
        An array, or an integer.
    axis
        Along which slices change places.
    independent
        Whether the elements of each line along the axis have an order of their own.
    """
    data = raw_key(key, "permutation")
    if np.ndim(x) == 0:
        return shuffled_range(data, count_of(x, "permutation"))
    return _permutation(data, x, axis_of(axis, np.ndim(x), "permutation"), independent)


def count_of(x: Any, function: str) -> int:
    if getattr(x, "dtype", np.dtype(int)).kind not in "iu" or isinstance(x, float | complex):
        msg = f"{function} takes an integer or an array with dimensions, and was given {x!r}."
        raise InvalidTypeError(msg, operation=function)
    return int(x)


@operation(static=("count",))
def shuffled_range(data: Any, count: int) -> Any:
    return _shuffled(as_value(data), iota((count,), 0, named("int32")), 0)


@operation(static=("axis", "independent"))
def _permutation(data: Any, x: Any, axis: int, independent: bool) -> Any:
    data, x = as_value(data), as_value(x)
    if independent or x.ndim == 1:
        return _shuffled(data, x, axis)
    order = _shuffled(data, iota((x.shape[axis],), 0, named("int32")), 0)
    return taken(x, order, axis)


@operation(static=("axis",))
def taken(x: Any, positions: Any, axis: int) -> Any:
    """Return the slices of a value at positions along an axis."""
    return take(x, positions, axis)


def _shuffled(data: Any, x: Any, axis: int) -> Any:
    """Return values sorted by random numbers, as often as makes equal ones unlikely."""
    rounds = math.ceil(3 * np.log(max(1, x.aval.size)) / np.log(2**32 - 1))
    for _ in range(rounds):
        keys = split_words(data, (2,))
        data, drawn = (index_in_dim(keys, i) for i in (0, 1))
        x = sort([random_bits(drawn, named("uint32"), x.aval.shape), x], axis)[1]
    return x
