"""Arrays with more elements around them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import shape_at
from devrt.numpy.joining import stack, unstack
from devrt.numpy.shaping import moveaxis, reshape
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, constant, convert, is_tracing, slice_in_dim

__all__ = ["pad"]

Widths = tuple[tuple[int, int], ...]

_OPTIONS: dict[str, tuple[str, ...]] = {
    "constant": ("constant_values",),
    "linear_ramp": ("end_values",),
    **dict.fromkeys(("maximum", "mean", "median", "minimum"), ("stat_length",)),
    **dict.fromkeys(("reflect", "symmetric"), ("reflect_type",)),
    **dict.fromkeys(("edge", "empty", "wrap"), ()),
}


def pad(array: Any, pad_width: Any, mode: Any = "constant", **options: Any) -> Any:
    """Return an array with elements before and after those along each axis.

    Parameters
    ----------
    array
        The array.
    pad_width
        How many: one number, (before, after) of every axis, a pair for each, or a dict of axes.
    mode
        ``constant``, ``edge``, ``empty``, ``linear_ramp``, ``maximum``, ``mean``, ``median``,
        ``minimum``, ``reflect``, ``symmetric``, ``wrap``; or a function as NumPy's ``pad`` takes,
        which returns the row in place of setting its elements.
    **options
        Of the mode: ``constant_values``, ``end_values``, ``stat_length``, ``reflect_type``.

    Raises
    ------
    InvalidArgumentError
        If the mode, one of its options or a width is not one.
    """
    shape = shape_at(array, "pad")
    widths = _widths(pad_width, shape)
    if callable(mode):
        return _by_function(array, widths, mode, options)
    allowed = _OPTIONS.get(mode)
    if allowed is None or not set(allowed).issuperset(options):
        others = sorted(set(options).difference(allowed or ()))
        wrong = f"mode {mode!r}" if allowed is None else f"{others} of mode {mode!r}"
        msg = f"pad: {wrong} is not known{at_user_line()}. The modes are {', '.join(_OPTIONS)}."
        raise InvalidArgumentError(msg, mode=mode)
    if mode == "constant":
        return _constant(array, options.get("constant_values", 0), widths)
    if mode == "linear_ramp":
        return _ramp(array, options.get("end_values", 0), widths)
    length = options.get("stat_length")
    lengths = None if length is None else _pairs(length, len(shape), "stat_length")
    is_mirrored = options.get("reflect_type", "even") != "even"
    return _padded(array, widths, mode, lengths, is_mirrored)


def _widths(given: Any, shape: tuple[int, ...]) -> Widths:
    if isinstance(given, dict):
        axes = {axis % len(shape): width for axis, width in given.items()}
        given = [np.broadcast_to(axes.get(i, 0), 2).tolist() for i in range(len(shape))]
    widths = _pairs(given, len(shape), "pad_width")
    if any(width < 0 for pair in widths for width in pair):
        msg = f"pad: the widths {widths} are not all 0 or more{at_user_line()}."
        raise InvalidArgumentError(msg, pad_width=widths)
    return widths


def _pairs(given: Any, ndim: int, name: str) -> Widths:
    try:
        pairs = np.broadcast_to(np.asarray(given), (ndim, 2)).tolist()
        return tuple((operator.index(low), operator.index(high)) for low, high in pairs)
    except (TypeError, ValueError) as error:
        if is_tracing() and isinstance(given, tracing.Tracer):
            raise
        msg = f"pad: {name} {given!r} is no pair of integers for each of {ndim} axes"
        raise InvalidArgumentError(f"{msg}{at_user_line()}.", **{name: given}) from error


@operation(static=("widths",))
def _constant(x: Any, values: Any, widths: Widths) -> Any:
    x = as_value(x)
    fills = _of_axes(values, x)
    if fills is None:
        low, high = zip(*widths, strict=True) if widths else ((), ())
        return tracing.pad(x, convert(_scalar(values, x), x.dtype), low, high)
    for axis, (pair, fill) in enumerate(zip(widths, fills, strict=True)):
        for side, width in enumerate(pair):
            edge = tuple(width if i == axis else 0 for i in range(x.ndim))
            none = (0,) * x.ndim
            x = tracing.pad(x, fill[side], *((none, edge) if side else (edge, none)))
    return x


def _scalar(values: Any, x: Any) -> Any:
    if isinstance(values, bool | int | float | complex):
        return constant(values, x.dtype)
    return as_value(values)


def _of_axes(values: Any, x: Any) -> list[Any] | None:
    """Return the values before and after each axis, as scalars of a value's dtype."""
    if isinstance(values, Sequence):
        leaves = [_of_axes(v, x) if isinstance(v, Sequence) else as_value(v) for v in values]
        if any(isinstance(leaf, list) for leaf in leaves):
            pairs = [[_scalar(v, x) for v in pair] for pair in values]
            pairs = [pair * 2 if len(pair) == 1 else pair for pair in pairs]
            pairs = pairs * x.ndim if len(pairs) == 1 else pairs
            return [[convert(v, x.dtype) for v in pair] for pair in pairs]
        values = stack([convert(_scalar(v, x), x.dtype) for v in values])
    value = convert(_scalar(values, x), x.dtype)
    if not value.ndim:
        return None
    spread = tracing.broadcast_to(value, (x.ndim, 2))
    return [[_element(spread, i, side) for side in (0, 1)] for i in range(x.ndim)]


def _element(x: Any, i: int, j: int) -> Any:
    return tracing.reshape(tracing.slice_(x, (i, j), (i + 1, j + 1)), ())


@operation(static=("widths",))
def _ramp(x: Any, values: Any, widths: Widths) -> Any:
    x = as_value(x)
    ends = _of_axes(values, x)
    end = convert(_scalar(values, x), x.dtype) if ends is None else None
    for axis, (low, high) in enumerate(widths):
        before, after = (end, end) if ends is None else ends[axis]
        first, last = (
            slice_in_dim(x, 0, 1, axis),
            slice_in_dim(x, x.shape[axis] - 1, x.shape[axis], axis),
        )
        parts = [
            _between(before, first, low, axis) if low else None,
            x,
            tracing.reverse(_between(after, last, high, axis), (axis,)) if high else None,
        ]
        x = tracing.concatenate([part for part in parts if part is not None], axis)
    return x


def _between(start: Any, stop: Any, count: int, axis: int) -> Any:
    """Return ``count`` steps from a scalar towards the elements of an edge, without them."""
    dtype, real = stop.dtype, tracing.inexact(stop.dtype)
    shape = (*stop.shape[:axis], count, *stop.shape[axis + 1 :])
    place = convert(tracing.iota(shape, axis, tracing.named("int32")), real)
    start, stop = convert(start, real), convert(stop, real)
    step = tracing.binary("divide", tracing.binary("subtract", stop, start), float(count))
    made = tracing.binary("add", start, tracing.binary("multiply", step, place))
    return made if real == dtype else convert(tracing.unary("floor", made), dtype)


@operation(static=("widths", "mode", "lengths", "is_mirrored"))
def _padded(x: Any, widths: Widths, mode: str, lengths: Widths | None, is_mirrored: bool) -> Any:
    x = as_value(x)
    for axis, (low, high) in enumerate(widths):
        if not (low or high):
            continue
        if not x.shape[axis] and mode != "empty":
            msg = f"pad: mode {mode!r} needs elements, and {x.aval} has none along axis {axis}"
            raise InvalidArgumentError(f"{msg}{at_user_line()}.", mode=mode, shape=x.shape)
        if mode in _STATISTICS:
            x = _by_statistic(x, axis, low, high, mode, lengths)
        elif mode in ("reflect", "symmetric"):
            x = _reflected(x, axis, low, high, mode == "reflect", is_mirrored)
        else:
            x = _PADDERS[mode](x, axis, low, high)
    return x


def _edge(x: Any, axis: int, low: int, high: int) -> Any:
    size = x.shape[axis]
    first, last = slice_in_dim(x, 0, 1, axis), slice_in_dim(x, size - 1, size, axis)
    return _around(x, axis, first, last, low, high)


def _around(x: Any, axis: int, first: Any, last: Any, low: int, high: int) -> Any:
    parts = [(_spread(first, axis, low), low), (x, 1), (_spread(last, axis, high), high)]
    return tracing.concatenate([part for part, count in parts if count], axis)


def _spread(part: Any, axis: int, count: int) -> Any:
    shape = (*part.shape[:axis], count, *part.shape[axis + 1 :])
    return tracing.broadcast_to(part, shape)


def _empty(x: Any, axis: int, low: int, high: int) -> Any:
    pairs = [(low, high) if i == axis else (0, 0) for i in range(x.ndim)]
    lows, highs = zip(*pairs, strict=True)
    return tracing.pad(x, constant(0, x.dtype), lows, highs)


def _wrap(x: Any, axis: int, low: int, high: int) -> Any:
    size = x.shape[axis]
    before, after = -(-low // size), -(-high // size)
    many = tracing.concatenate([x] * (before + 1 + after), axis)
    return slice_in_dim(many, before * size - low, (before + 1) * size + high, axis)


def _reflected(x: Any, axis: int, low: int, high: int, is_inner: bool, is_mirrored: bool) -> Any:
    """Return a value with its mirror images before and after it, again and again."""
    size, skipped = x.shape[axis], int(is_inner)
    if skipped == size:
        return _edge(x, axis, low, high)
    for is_after in (False, True):
        missing = high if is_after else low
        period = size - skipped
        while missing:
            count = min(missing, period)
            n = x.shape[axis]
            # The image is of what lies next to the edge, not of the edge itself in "reflect".
            start = n - count - skipped if is_after else skipped
            image = tracing.reverse(slice_in_dim(x, start, start + count, axis), (axis,))
            if is_mirrored:
                edge = slice_in_dim(x, n - 1, n, axis) if is_after else slice_in_dim(x, 0, 1, axis)
                image = tracing.binary("subtract", tracing.binary("multiply", edge, 2), image)
            x = tracing.concatenate([x, image] if is_after else [image, x], axis)
            missing -= count
            period = max(period, x.shape[axis] - skipped)
    return x


_PADDERS: dict[str, Callable[..., Any]] = {"edge": _edge, "empty": _empty, "wrap": _wrap}
_STATISTICS = {"maximum": "max", "mean": "mean", "median": "median", "minimum": "min"}


def _by_statistic(x: Any, axis: int, low: int, high: int, mode: str, lengths: Widths | None) -> Any:
    from devrt import numpy

    size = x.shape[axis]
    before, after = lengths[axis] if lengths else (size, size)
    if min(before, after) <= 0:
        msg = f"pad: stat_length is 1 or more, not {min(before, after)}{at_user_line()}."
        raise InvalidArgumentError(msg, stat_length=lengths)
    function = getattr(numpy, _STATISTICS[mode])

    def of(part: Any) -> Any:
        value = function(part, axis=axis, keepdims=True)
        if x.dtype.kind in "iu" and value.dtype != x.dtype:
            value = tracing.unary("round_nearest_even", value)
        return convert(value, x.dtype)

    first = of(slice_in_dim(x, 0, min(before, size), axis))
    last = of(slice_in_dim(x, max(0, size - after), size, axis))
    return _around(x, axis, first, last, low, high)


def _by_function(x: Any, widths: Widths, function: Any, options: dict[str, Any]) -> Any:
    """Return an array that was padded with zeros, each of its rows changed by a function."""
    made = _padded(x, widths, "empty", None, False)
    for axis, pair in enumerate(widths):
        rows = moveaxis(made, axis, -1)
        each = unstack(reshape(rows, (-1, rows.shape[-1])))
        changed = stack([function(row, pair, axis, options) for row in each])
        made = moveaxis(reshape(changed, rows.shape), -1, axis)
    return made
