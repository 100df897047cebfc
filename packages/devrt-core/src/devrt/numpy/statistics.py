"""Averages, quantiles, and how variables vary together."""

from __future__ import annotations

import math
from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import Axes, axes_of, refuse_out
from devrt.numpy.diagonals import diagonal
from devrt.numpy.products import matmul
from devrt.numpy.reductions import computed_in, keep, mean, sum
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    at_user_line,
    binary,
    compare,
    conjugate,
    convert,
    inexact,
    named,
    real_of,
    select,
)

__all__ = [
    "average",
    "corrcoef",
    "cov",
    "median",
    "nanmedian",
    "nanpercentile",
    "nanquantile",
    "percentile",
    "quantile",
]


@operation(static=("axis", "returned", "keepdims"))
def average(
    a: Any, axis: Axes = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """Return the mean along some axes, each element counted by its weight.

    With ``returned`` also the sums of weights.
    """
    x = as_value(a)
    axes = axes_of(axis, x.ndim, "average")
    if weights is None:
        made = mean(x, axis=axes, keepdims=keepdims)
        count = x.size // max(1, made.size) if made.size else 0
        total = tracing.constant(count, made.dtype, made.shape)
        return (made, total) if returned else made
    w = as_value(weights)
    if w.shape != x.shape:
        if w.shape != tuple(x.shape[i] for i in axes):
            msg = f"average: weights of {w.aval} are not those of {x.aval}{at_user_line()}."
            raise InvalidArgumentError(msg, shapes=(x.shape, w.shape))
        w = tracing.broadcast_in_dim(w, x.shape, axes)
    dtype = inexact(tracing.result_type(x, w)[0])
    x, w = convert(x, dtype), convert(w, dtype)
    total = sum(w, axis=axes, keepdims=keepdims)
    made = binary("divide", sum(binary("multiply", x, w), axis=axes, keepdims=keepdims), total)
    return (made, tracing.broadcast_to(total, made.shape)) if returned else made


# -- quantiles -----------------------------------------------------------------------------------

_METHODS = ("linear", "lower", "higher", "midpoint", "nearest")
_STATIC = ("axis", "method", "keepdims", "ignores_nan", "name")


@operation(static=_STATIC)
def _quantile(
    a: Any, q: Any, *, axis: Axes, method: str, keepdims: bool, ignores_nan: bool, name: str
) -> Any:
    x, shares = as_value(a), as_value(q)
    if method not in _METHODS:
        msg = f"{name}: method {method!r} is none of {', '.join(_METHODS)}{at_user_line()}."
        raise InvalidArgumentError(msg, method=method)
    if shares.ndim > 1:
        msg = f"{name}: q is a number or a vector, not {shares.aval}{at_user_line()}."
        raise InvalidArgumentError(msg, shape=shares.shape)
    result = inexact(x.dtype)
    axes = axes_of(axis, x.ndim, name)
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = tracing.transpose(convert(x, computed_in(result)), [*kept, *axes])
    shape = tuple(x.shape[i] for i in kept)
    size = x.size // max(1, math.prod(shape))
    if not size:
        msg = f"{name}: there are no elements{at_user_line()}: {x.aval}."
        raise InvalidArgumentError(msg, shape=x.shape)
    (ordered,) = tracing.sort([tracing.reshape(rows, (*shape, size))], len(shape))
    found = _at_shares(ordered, convert(shares, ordered.dtype), method, ignores_nan)
    made = [keep(each, axes, x.shape, keepdims) for each in found]
    if not shares.ndim:
        return convert(made[0], result)
    one = [tracing.reshape(each, (1, *each.shape)) for each in made]
    return (
        convert(tracing.concatenate(one, 0), result)
        if one
        else tracing.constant(0, result, (0, *shape))
    )


def _at_shares(ordered: Any, shares: Any, method: str, ignores_nan: bool) -> list[Any]:
    """Return, for each share, the values that far into the rows: NaNs are the last in each."""
    last = ordered.ndim - 1
    is_nan = compare("NE", ordered, ordered)
    missing = sum(convert(is_nan, named("int32")), axis=last)
    count = binary("subtract", ordered.shape[last], missing)
    flat = tracing.reshape(shares, (shares.size,))
    made = []
    for i in range(shares.size):
        share = tracing.index_in_dim(flat, i)
        made.append(_at_share(ordered, share, count, missing, method, ignores_nan))
    return made


def _at_share(
    ordered: Any, share: Any, count: Any, missing: Any, method: str, ignores_nan: bool
) -> Any:
    size = ordered.shape[-1]
    end = (
        binary("subtract", count, 1)
        if ignores_nan
        else tracing.constant(size - 1, named("int32"), missing.shape)
    )
    place = binary("multiply", share, convert(end, ordered.dtype))
    low, high = (tracing.unary(name, place) for name in ("floor", "ceil"))
    before, after = (_taken(ordered, each) for each in (low, high))
    if method == "linear":
        share_of = binary("subtract", place, low)
        step = binary("multiply", binary("subtract", after, before), share_of)
        # Between equal values, infinite ones too, there is no step.
        made = select(compare("EQ", before, after), before, binary("add", before, step))
    elif method == "midpoint":
        made = binary("multiply", binary("add", before, after), 0.5)
    elif method == "nearest":
        made = _taken(ordered, tracing.unary("round_nearest_even", place))
    else:
        made = before if method == "lower" else after
    bad = compare("EQ", count, 0) if ignores_nan else compare("GT", missing, 0)
    return select(bad, float("nan"), made)


def _taken(ordered: Any, place: Any) -> Any:
    index = tracing.clamp(0, convert(place, named("int32")), ordered.shape[-1] - 1)
    at = tracing.reshape(index, (*index.shape, 1))
    return tracing.reshape(tracing.take_along(ordered, at, ordered.ndim - 1), index.shape)


def _of(name: str, ignores_nan: bool, a: Any, q: Any, axis: Any, out: Any, method: str,
        keepdims: bool) -> Any:  # fmt: skip
    refuse_out(out, name)
    options: dict[str, Any] = {"method": method, "keepdims": keepdims}
    return _quantile(a, q, axis=axis, ignores_nan=ignores_nan, name=name, **options)


def quantile(
    a: Any, q: Any, axis: Axes = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return the values that shares of the elements along some axes lie below; NaN where one is.

    Between two elements ``method`` decides: linear, lower, higher, midpoint or nearest.
    """
    return _of("quantile", False, a, q, axis, out, method, keepdims)


def nanquantile(
    a: Any, q: Any, axis: Axes = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return quantiles of the elements that are no NaNs; see `quantile`."""
    return _of("nanquantile", True, a, q, axis, out, method, keepdims)


@operation
def _hundredth(q: Any) -> Any:
    shares = as_value(q)
    return binary("divide", convert(shares, inexact(shares.dtype)), 100.0)


def percentile(
    a: Any, q: Any, axis: Axes = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return quantiles of shares in hundredths; see `quantile`."""
    return _of("percentile", False, a, _hundredth(q), axis, out, method, keepdims)


def nanpercentile(
    a: Any, q: Any, axis: Axes = None, out: None = None, overwrite_input: bool = False,
    method: str = "linear", keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return percentiles of the elements that are no NaNs; see `percentile`."""
    return _of("nanpercentile", True, a, _hundredth(q), axis, out, method, keepdims)


def median(
    a: Any, axis: Axes = None, out: None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return the middle elements along some axes, or the mean of the two in the middle."""
    return _of("median", False, a, 0.5, axis, out, "midpoint", keepdims)


def nanmedian(
    a: Any, axis: Axes = None, out: None = None, overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return the middle of the elements that are no NaNs; see `median`."""
    return _of("nanmedian", True, a, 0.5, axis, out, "midpoint", keepdims)


# -- covariances ---------------------------------------------------------------------------------


def _variables(m: Any, y: Any, rowvar: bool, name: str) -> Any:
    """Return variables as rows of samples."""
    rows = []
    for each in (m, y):
        if each is None:
            continue
        x = as_value(each)
        if x.ndim > 2:
            msg = f"{name} takes vectors and matrices, not {x.aval}{at_user_line()}."
            raise InvalidArgumentError(msg, shape=x.shape)
        x = tracing.reshape(x, (1,) * (2 - x.ndim) + x.shape)
        rows.append(tracing.transpose(x, (1, 0)) if not rowvar and x.shape[0] != 1 else x)
    dtype = inexact(tracing.result_type(*rows)[0])
    return tracing.concatenate([convert(x, dtype) for x in rows], 0)


@operation(static=("rowvar", "bias", "ddof"))
def cov(
    m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: Any = None, aweights: Any = None,
) -> Any:  # fmt: skip
    """Return the covariances of variables, which are rows, or columns without ``rowvar``.

    ``fweights`` is how often each sample counts, ``aweights`` how much.
    """
    x = _variables(m, y, rowvar, "cov")
    less = (0 if bias else 1) if ddof is None else ddof
    real = real_of(x.dtype)
    weights = None
    for given in (fweights, aweights):
        if given is not None:
            w = convert(as_value(given), real)
            weights = w if weights is None else binary("multiply", weights, w)
    if weights is None:
        count = tracing.constant(float(x.shape[1]), real)
        centre = mean(x, axis=1, keepdims=True)
        divisor = binary("subtract", count, float(less))
    else:
        count = sum(weights)
        share = convert(binary("divide", weights, count), x.dtype)
        row = tracing.reshape(share, (1, share.size))
        centre = sum(binary("multiply", x, row), axis=1, keepdims=True)
        divisor = binary("subtract", count, _lost(weights, aweights, count, less))
    distance = binary("subtract", x, centre)
    scaled = distance
    if weights is not None:
        row = tracing.reshape(convert(weights, x.dtype), (1, weights.size))
        scaled = binary("multiply", distance, row)
    product = matmul(scaled, tracing.transpose(conjugate(distance), (1, 0)), precision="highest")
    made = binary("divide", product, convert(binary("maximum", divisor, 0.0), x.dtype))
    return tracing.reshape(made, tuple(n for n in made.shape if n != 1))


def _lost(weights: Any, aweights: Any, count: Any, less: int) -> Any:
    """Return the degrees of freedom that the mean takes: of weighted samples its share of them."""
    if aweights is None:
        return tracing.constant(float(less), count.dtype)
    w = convert(as_value(aweights), count.dtype)
    square = sum(binary("multiply", weights, w))
    return binary("multiply", float(less), binary("divide", square, count))


@operation(static=("rowvar",))
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Any:
    """Return the correlation coefficients of variables; see `cov`."""
    c = cov(x, y, rowvar)
    if not c.ndim:
        return binary("divide", c, c)
    spread = diagonal(c)
    spread = tracing.unary("sqrt", tracing.real_part(spread) if c.dtype.kind == "c" else spread)
    rows, columns = (tracing.broadcast_in_dim(spread, c.shape, (i,)) for i in (0, 1))
    c = binary("divide", c, convert(binary("multiply", rows, columns), c.dtype))
    if c.dtype.kind == "c":
        return c
    return tracing.clamp(-1.0, c, 1.0)
