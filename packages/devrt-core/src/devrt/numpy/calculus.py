"""Differences, slopes and areas of sampled functions, values between samples, convolutions."""

from __future__ import annotations

import operator
from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axes_of, axis_of
from devrt.numpy.products import contract
from devrt.numpy.reductions import sum as total
from devrt.numpy.searching import places_in
from devrt.programs.eager import operation
from devrt.tracing import (
    DotDimensions,
    as_value,
    at_user_line,
    binary,
    compare,
    conjugate,
    convert,
    inexact,
    named,
    promote,
    select,
)

__all__ = ["convolve", "correlate", "diff", "ediff1d", "gradient", "interp", "trapezoid"]


def part(x: Any, axis: int, start: int | None, stop: int | None, step: int = 1) -> Any:
    """Return ``x[..., start:stop:step, ...]`` along an axis."""
    low, high, _ = slice(start, stop).indices(x.shape[axis])
    return tracing.slice_in_dim(x, low, max(low, high), axis, step)


def _minus(x: Any, y: Any) -> Any:
    return binary("subtract", x, y)


@operation(static=("n", "axis"))
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the differences of neighbours along an axis, ``n`` times."""
    x = as_value(a)
    dimension = axis_of(axis, x.ndim, "diff")
    if operator.index(n) < 0:
        msg = f"diff: n is 0 or more, not {n}{at_user_line()}."
        raise InvalidArgumentError(msg, n=n)
    if n == 0:
        return x
    shape = tuple(1 if i == dimension else size for i, size in enumerate(x.shape))
    ends = [
        None if end is None else end if as_value(end).ndim else tracing.broadcast_to(end, shape)
        for end in (prepend, append)
    ]
    parts = [each for each in (ends[0], x, ends[1]) if each is not None]
    x = tracing.concatenate(promote(*parts), dimension)
    for _ in range(n):
        later, earlier = part(x, dimension, 1, None), part(x, dimension, 0, -1)
        if not x.shape[dimension]:
            return x
        x = compare("NE", later, earlier) if x.dtype == named("bool") else _minus(later, earlier)
    return x


@operation
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """Return the differences of all elements that follow each other, with others around them."""
    x = as_value(ary)
    made = diff(tracing.reshape(x, (x.size,)))
    ends = [
        None if end is None else tracing.reshape(convert(end, x.dtype), (as_value(end).size,))
        for end in (to_begin, to_end)
    ]
    return tracing.concatenate([y for y in (ends[0], made, ends[1]) if y is not None], 0)


@operation(static=("axis", "edge_order"))
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return the slopes along axes, by central differences; at the ends by one-sided ones.

    After the array comes the distance of samples: one number, or for each axis a number or the
    samples' coordinates. Of one axis the slopes are an array, of several a list.
    """
    x = as_value(f)
    x = convert(x, inexact(x.dtype))
    axes = axes_of(axis, x.ndim, "gradient")
    if edge_order != 1 or len(varargs) not in (0, 1, len(axes)):
        msg = (
            f"gradient: {len(varargs)} distances for {len(axes)} axes, edge_order {edge_order}: "
            f"give one, or one for each axis, and edge_order 1{at_user_line()}."
        )
        raise InvalidArgumentError(msg, edge_order=edge_order)
    spacings = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    made = [_slopes(x, i, h) for i, h in zip(axes, spacings, strict=True)]
    return made[0] if len(made) == 1 else made


def _slopes(x: Any, axis: int, spacing: Any) -> Any:
    if x.shape[axis] < 2:
        msg = f"gradient: {x.aval} has fewer than two elements along axis {axis}{at_user_line()}."
        raise InvalidArgumentError(msg, shape=x.shape, axis=axis)
    step = as_value(spacing)
    steps = _minus(part(x, axis, 1, None), part(x, axis, None, -1))
    if not step.ndim:
        first, last = (
            binary("divide", part(steps, axis, *at), step) for at in ((0, 1), (-1, None))
        )
        wide = _minus(part(x, axis, 2, None), part(x, axis, None, -2))
        inner = binary("divide", wide, binary("multiply", step, 2))
    else:
        shape = [1] * x.ndim
        shape[axis] = x.shape[axis] - 1
        h = tracing.reshape(
            convert(_minus(part(step, 0, 1, None), part(step, 0, None, -1)), x.dtype), tuple(shape)
        )
        slope = binary("divide", steps, h)
        first, last = part(slope, axis, 0, 1), part(slope, axis, -1, None)
        before, after = part(h, axis, None, -1), part(h, axis, 1, None)
        # The slope of a parabola through three samples: each side's, by the other's distance.
        weighed = binary(
            "add",
            binary("multiply", part(slope, axis, None, -1), after),
            binary("multiply", part(slope, axis, 1, None), before),
        )
        inner = binary("divide", weighed, binary("add", before, after))
    return convert(tracing.concatenate(promote(first, inner, last), axis), x.dtype)


@operation(static=("axis",))
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Return the area below samples along an axis, by trapezoids.

    ``x`` has the samples' coordinates; without it they are ``dx`` apart.
    """
    values = as_value(y)
    values = convert(values, inexact(values.dtype))
    dimension = axis_of(axis, values.ndim, "trapezoid")
    if x is None:
        width = convert(as_value(dx), values.dtype)
    else:
        places = as_value(x)
        if places.ndim == 1:
            shape = tuple(places.size if i == dimension else 1 for i in range(values.ndim))
            places = tracing.reshape(places, shape)
        width = diff(convert(places, values.dtype), axis=dimension)
    pairs = binary("add", part(values, dimension, 1, None), part(values, dimension, None, -1))
    return total(binary("multiply", binary("multiply", pairs, width), 0.5), axis=dimension)


@operation(static=("left", "right"))
def _interp(x: Any, xp: Any, fp: Any, period: Any, ends: Any, *, left: bool, right: bool) -> Any:
    x, xp = promote(x, xp)
    dtype = inexact(x.dtype)
    values = as_value(fp)
    values = convert(values, inexact(values.dtype))
    x, xp = convert(x, dtype), convert(xp, dtype)
    if xp.ndim != 1 or xp.shape != values.shape or not xp.size:
        msg = f"interp: {xp.aval} and {values.aval} are no samples{at_user_line()}: two vectors."
        raise InvalidArgumentError(msg, shapes=(xp.shape, values.shape))
    if period is not None:
        x, xp, values = _periodic(x, xp, values, convert(as_value(period), dtype))
    size = xp.shape[0]
    at = tracing.clamp(1, places_in(xp, x, "right"), max(1, size - 1))
    before = binary("subtract", at, 1)
    low, high = tracing.take(xp, before, 0), tracing.take(xp, at, 0)
    start, stop = tracing.take(values, before, 0), tracing.take(values, at, 0)
    width = _minus(high, low)
    # Between samples at one place, the first one's value.
    is_flat = compare("EQ", width, 0)
    share = binary("divide", _minus(x, low), select(is_flat, 1, width))
    made = binary(
        "add", start, binary("multiply", _minus(stop, start), convert(share, start.dtype))
    )
    made = select(is_flat, start, made)
    if period is not None:
        return made
    first, last = part(values, 0, 0, 1), part(values, 0, -1, None)
    given = iter(ends)
    below = next(given) if left else tracing.reshape(first, ())
    above = next(given) if right else tracing.reshape(last, ())
    lowest, greatest = (tracing.reshape(part(xp, 0, *s), ()) for s in ((0, 1), (-1, None)))
    made = select(compare("LT", x, lowest), convert(below, values.dtype), made)
    return select(compare("GT", x, greatest), convert(above, values.dtype), made)


def _periodic(x: Any, xp: Any, values: Any, period: Any) -> tuple[Any, Any, Any]:
    """Return samples of one period in order, with one more on either side."""
    period = tracing.unary("abs", period)

    def within(v: Any) -> Any:
        rest = binary("remainder", v, period)
        return select(compare("LT", rest, 0), binary("add", rest, period), rest)

    xp, index = tracing.sort([within(xp), tracing.iota(xp.shape, 0, named("int32"))], 0)
    values = tracing.take(values, index, 0)
    before, after = _minus(part(xp, 0, -1, None), period), binary("add", part(xp, 0, 0, 1), period)
    xp = tracing.concatenate([before, xp, after], 0)
    values = tracing.concatenate([part(values, 0, -1, None), values, part(values, 0, 0, 1)], 0)
    return within(x), xp, values


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None
) -> Any:
    """Return values between samples, on straight lines.

    Before the first sample it is ``left``, after the last ``right``, by default their values; or
    the samples repeat with a ``period``.
    """
    ends = [end for end in (left, right) if end is not None]
    return _interp(x, xp, fp, period, ends, left=left is not None, right=right is not None)


@operation(static=("mode", "precision", "preferred_element_type"))
def convolve(
    a: Any, v: Any, mode: str = "full", *, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Return the convolution of two vectors: ``full``, ``same`` length, or where ``valid``."""
    x, y = _vectors(a, v, "convolve")
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    return _slid(x, tracing.reverse(y, [0]), mode, precision, preferred_element_type)


@operation(static=("mode", "precision", "preferred_element_type"))
def correlate(
    a: Any, v: Any, mode: str = "valid", *, precision: Any = None,
    preferred_element_type: Any = None,
) -> Any:  # fmt: skip
    """Return the sums of products of a vector and another, conjugated, at each shift."""
    x, y = _vectors(a, v, "correlate")
    y = conjugate(y)
    if y.shape[0] <= x.shape[0]:
        return _slid(x, y, mode, precision, preferred_element_type)
    # With the shorter one moved along the longer, the shifts are in reverse.
    made = _slid(y, x, mode, precision, preferred_element_type)
    return tracing.reverse(made, [0])


def _vectors(a: Any, v: Any, name: str) -> list[Any]:
    x, y = promote(a, v)
    if x.ndim != 1 or y.ndim != 1 or not (x.size and y.size):
        msg = f"{name} takes two vectors with elements, not {x.aval} and {y.aval}{at_user_line()}."
        raise InvalidArgumentError(msg, shapes=(x.shape, y.shape))
    return [x, y]


def _slid(x: Any, y: Any, mode: str, precision: Any, preferred: Any) -> Any:
    """Return the sums of products with a shorter vector at each place of a longer one."""
    count = y.shape[0]
    widths = {"full": (count - 1, count - 1), "valid": (0, 0)}
    widths["same"] = (count // 2, (count - 1) // 2)
    if mode not in widths:
        msg = f"the mode is full, same or valid, not {mode!r}{at_user_line()}."
        raise InvalidArgumentError(msg, mode=mode)
    low, high = widths[mode]
    x = tracing.pad(x, 0, (low,), (high,))
    length = x.shape[0] - count + 1
    place = (tracing.iota((length, count), i, named("int32")) for i in (0, 1))
    windows = tracing.take(x, binary("add", *place), 0)
    return contract(windows, y, DotDimensions((1,), (0,)), precision, preferred)
