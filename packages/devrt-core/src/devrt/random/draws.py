"""Random choices among elements, with probabilities of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axis_of, shape_of
from devrt.programs.eager import operation
from devrt.random.choices import count_of, integers_between, shuffled_range, taken
from devrt.random.keys import raw_key
from devrt.random.samplers import (
    Shape,
    check_shape,
    float_dtype,
    gumbel_values,
    uniform_values,
)
from devrt.tracing import (
    as_value,
    broadcast_in_dim,
    broadcast_to,
    compare,
    constant,
    convert,
    inexact,
    iota,
    named,
    nary,
    reduce,
    reshape,
    slice_,
    transpose,
    unary,
)
from devrt.tracing.reductions import cumulative
from devrt.tracing.sorting import sort

__all__ = ["categorical", "choice"]


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Any:
    """Return positions along an axis, each drawn with the probabilities of ``softmax(logits)``.

    Parameters
    ----------
    key
        A key.
    logits
        Logarithms of probabilities, up to a constant.
    axis
        The axis with the probabilities of one draw.
    shape
        Of the result: that of ``logits`` without the axis, which is the default, after dimensions
        for further draws.
    replace
        Whether a position may be drawn again.
    mode
        As in `gumbel`.
    """
    rank = np.ndim(logits)
    axis = axis_of(axis, rank, "categorical")
    rest = tuple(n for i, n in enumerate(np.shape(logits)) if i != axis)
    given = rest if shape is None else shape_of(shape)
    check_shape("categorical", given, rest)
    prefix = given[: len(given) - len(rest)]
    count, most = math.prod(prefix), np.shape(logits)[axis]
    if not replace and count > most:
        msg = f"categorical: cannot draw {count} of {most} positions without replacement."
        raise InvalidArgumentError(msg, count=count)
    data = raw_key(key, "categorical")
    return _categorical(data, logits, axis, given, prefix, replace, mode or "low")


@operation(static=("axis", "shape", "prefix", "replace", "mode"))
def _categorical(
    data: Any,
    logits: Any,
    axis: int,
    shape: tuple[int, ...],
    prefix: tuple[int, ...],
    replace: bool,
    mode: str,
) -> Any:
    from devrt import numpy

    logits = as_value(logits)
    logits = convert(logits, inexact(logits.aval.dtype))
    if not replace:
        noisy = nary("add", logits, gumbel_values(data, logits.shape, logits.dtype, mode))
        order = [axis, *(i for i in range(len(noisy.aval.shape)) if i != axis)]
        best = transpose(_from_largest(noisy, axis), order)
        starts, limits = (0,) * len(order), (math.prod(prefix), *best.aval.shape[1:])
        return reshape(slice_(best, starts, limits), shape)
    sizes = list(shape[len(prefix) :])
    sizes.insert(axis, logits.shape[axis])
    drawn = (*prefix, *sizes)
    noise = gumbel_values(data, drawn, logits.dtype, mode)
    return numpy.argmax(nary("add", noise, broadcast_to(logits, drawn)), axis=axis + len(prefix))


def choice(
    key: Any,
    a: Any,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Any:
    """Return random elements of an array, or of the integers below ``a``.

    Parameters
    ----------
    key
        A key.
    a
        An array, or an integer.
    shape
        Of the draws; it takes the place of the axis.
    replace
        Whether an element may be drawn again.
    p
        The probability of each; equal ones by default.
    axis
        The axis with the elements.
    mode
        As in `gumbel`, where ``p`` is given and ``replace`` is false.
    """
    rank, given = np.ndim(a), shape_of(shape)
    axis = axis_of(axis, rank, "choice") if rank else 0
    most = np.shape(a)[axis] if rank else count_of(a, "choice")
    count = math.prod(given)
    if count and (most <= 0 or (not replace and count > most)):
        how = "" if replace else " without replacement"
        msg = f"choice: cannot draw {count} of {most} elements{how}."
        raise InvalidArgumentError(msg, count=count)
    if p is not None and np.shape(p) != (most,):
        msg = f"choice: p has shape {np.shape(p)}, and there are {most} elements."
        raise InvalidArgumentError(msg, shape=np.shape(p))
    data = raw_key(key, "choice")
    if p is None:
        order = _uniform_positions(data, most, given, replace)
    else:
        order = _weighted_positions(data, p, given, replace, mode or "low")
    if not rank:
        return order
    return taken(a, order, axis)


@operation(static=("most", "shape", "replace"))
def _uniform_positions(data: Any, most: int, shape: tuple[int, ...], replace: bool) -> Any:
    if replace:
        return integers_between(data, 0, most, shape, named("int32"))
    order = shuffled_range(data, most)
    return reshape(slice_(order, (0,), (math.prod(shape),)), shape)


@operation(static=("shape", "replace", "mode"))
def _weighted_positions(data: Any, p: Any, shape: tuple[int, ...], replace: bool, mode: str) -> Any:
    p = as_value(p)
    p = convert(p, float_dtype(inexact(p.aval.dtype), "choice"))
    if replace:
        total = cumulative("add", p, 0, 0)
        drawn = uniform_values(as_value(data), 0.0, 1.0, shape, p.dtype)
        edges = broadcast_in_dim(total, (*shape, p.size), (len(shape),))
        sought = nary("multiply", total[-1], nary("subtract", constant(1.0, p.dtype), drawn))
        sought = broadcast_in_dim(sought, edges.aval.shape, range(len(shape)))
        is_before = convert(compare("LT", edges, sought), named("int32"))
        return reduce("add", is_before, 0, [len(shape)])
    noisy = nary("add", unary("log", p), gumbel_values(data, p.shape, p.dtype, mode))
    best = _from_largest(noisy, 0)
    return reshape(slice_(best, (0,), (math.prod(shape),)), shape)


def _from_largest(x: Any, axis: int) -> Any:
    """Return positions along an axis, from that of the largest element to that of the smallest."""
    positions = iota(x.aval.shape, axis, named("int32"))
    return sort([unary("negate", x), positions], axis)[1]
