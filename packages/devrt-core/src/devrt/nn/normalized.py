"""Functions along axes: softmax and its like, and arrays with a one at a position."""

from __future__ import annotations

import math
import operator
from typing import Any

from devrt import lax
from devrt import numpy as dnp
from devrt.numpy.limits import dtype_for
from devrt.numpy.operands import fractions
from devrt.programs.eager import operation
from devrt.tracing import as_value, compare, convert, iota, reshape

__all__ = ["log_softmax", "logsumexp", "one_hot", "softmax", "standardize"]


def _lowered(x: Any, axis: Any, where: Any) -> tuple[Any, Any]:
    """Return an array less its greatest elements, and those, which gradients take for constants.

    Elements that do not count become 0: their exponentials could overflow.
    """
    top = dnp.max(x, axis, keepdims=True, where=where, initial=-math.inf)
    top = lax.stop_gradient(dnp.where(dnp.isfinite(top), top, 0))
    low = x - top
    return low if where is None else dnp.where(where, low, 0), top


@operation(static=("axis",))
def softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """Return ``exp(x) / sum(exp(x))`` along axes.

    Parameters
    ----------
    x
        The array.
    axis
        One axis or several, or None for all.
    where
        Elements that count; the others become 0.
    """
    (x,) = fractions(x)
    shares = dnp.exp(_lowered(x, axis, where)[0])
    if where is not None:
        shares = dnp.where(where, shares, 0)
    total = dnp.sum(shares, axis, keepdims=True)
    return shares / (total if where is None else dnp.where(total == 0, 1, total))


@operation(static=("axis",))
def log_softmax(x: Any, axis: Any = -1, where: Any = None) -> Any:
    """Return ``log(softmax(x))``; elements that do not count become ``-inf``."""
    (x,) = fractions(x)
    low, _ = _lowered(x, axis, where)
    total = dnp.sum(dnp.exp(low), axis, keepdims=True, where=where)
    found = low - dnp.log(total)
    return found if where is None else dnp.where(where, found, -math.inf)


@operation(static=("axis", "keepdims", "return_sign"))
def logsumexp(
    a: Any,
    axis: Any = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """Return ``log(sum(b * exp(a)))`` along axes, by default along all, without overflow.

    Parameters
    ----------
    a
        The array.
    axis
        One axis or several, or None for all.
    b
        Factors, by default 1.
    keepdims
        Whether the axes stay, of size 1.
    return_sign
        Whether the sign of the sum is returned too, and the logarithm is of its absolute value;
        without it the logarithm of a sum below 0 is NaN.
    where
        Elements that count.
    """
    (x,) = fractions(a)
    low, top = _lowered(x, axis, where)
    parts = dnp.exp(low)
    total = dnp.sum(parts if b is None else parts * b, axis, keepdims=True, where=where)
    found = dnp.log(dnp.abs(total) if return_sign else total) + top
    sign = dnp.sign(total)
    if not keepdims:
        found, sign = (dnp.squeeze(each, _axes(axis, x.ndim)) for each in (found, sign))
    return (found, sign) if return_sign else found


def _axes(axis: Any, rank: int) -> Any:
    return tuple(range(rank)) if axis is None else axis


@operation(static=("axis", "epsilon"))
def standardize(
    x: Any,
    axis: Any = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 1e-5,
    where: Any = None,
) -> Any:
    """Return an array less its mean along axes, divided by its standard deviation.

    Parameters
    ----------
    x
        The array.
    axis
        One axis or several, or None for all.
    mean, variance
        Those to use, by default the array's own.
    epsilon
        Added to the variance.
    where
        Elements that count in both.
    """
    (x,) = fractions(x)
    if mean is None:
        mean = dnp.mean(x, axis, keepdims=True, where=where)
    if variance is None:
        variance = dnp.mean(dnp.square(x), axis, keepdims=True, where=where) - dnp.square(mean)
    return (x - mean) * lax.rsqrt(variance + epsilon)


@operation(static=("num_classes", "dtype", "axis"))
def one_hot(x: Any, num_classes: int, *, dtype: Any = None, axis: int = -1) -> Any:
    """Return an array with a new axis, in which there is 1 at the position ``x`` and 0 elsewhere.

    Parameters
    ----------
    x
        Integers; those outside of ``range(num_classes)`` give zeros alone.
    num_classes
        The size of the new axis.
    dtype
        Of the result, float32 by default.
    axis
        Where the new axis is put in the result.
    """
    x, size = as_value(x), operator.index(num_classes)
    place = axis if axis >= 0 else axis + x.ndim + 1
    shape = (*x.shape[:place], size, *x.shape[place:])
    spread = reshape(x, (*x.shape[:place], 1, *x.shape[place:]))
    found = compare("EQ", dnp.broadcast_to(spread, shape), iota(shape, place, x.dtype))
    return convert(found, dtype_for("float32" if dtype is None else dtype, "one_hot"))
