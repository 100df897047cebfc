"""Reductions of the elements that are no NaNs."""

from __future__ import annotations

from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy import reductions
from devrt.numpy.arguments import Axes, refuse_out
from devrt.numpy.cumulative import cumprod, cumsum
from devrt.numpy.extremes import argmax, argmin
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, binary, compare, named, select

__all__ = [
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]

_STATIC = ("axis", "dtype", "keepdims", "ddof", "correction")


def _filled(a: Any, number: Any) -> Any:
    """Return an array with a number in place of NaNs."""
    x = as_value(a)
    if x.dtype.kind in "biu":
        return x
    return select(compare("NE", x, x), tracing.constant(number, x.dtype), x)


def _numbers(a: Any, where: Any) -> Any:
    """Return where an array has numbers, within a mask."""
    x = as_value(a)
    is_number = compare("EQ", x, x)
    return is_number if where is None else binary("and", is_number, as_value(where))


@operation(static=("axis", "dtype", "keepdims"))
def nansum(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None,
) -> Any:  # fmt: skip
    """Return the sum over some axes, NaNs as zero."""
    return reductions.sum(_filled(a, 0), axis, dtype, out, keepdims, initial, where)


@operation(static=("axis", "dtype", "keepdims"))
def nanprod(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None,
) -> Any:  # fmt: skip
    """Return the product over some axes, NaNs as one."""
    return reductions.prod(_filled(a, 1), axis, dtype, out, keepdims, initial, where)


def _extreme(
    name: str, a: Any, axis: Axes, keepdims: bool, initial: Any, where: Any, limit: Any
) -> Any:
    x = as_value(a)
    if x.dtype.kind == "c":
        msg = f"nan{name} is of real numbers, not of {x.aval}{at_user_line()}."
        raise InvalidArgumentError(msg, dtype=x.dtype.name)
    made = getattr(reductions, name)(_filled(x, limit), axis, None, keepdims, initial, where)
    if x.dtype.kind in "biu" or initial is not None:
        return made
    has_none = reductions.all(compare("NE", x, x), axis, None, keepdims, where=where)
    return select(has_none, float("nan"), made)


@operation(static=("axis", "keepdims"))
def nanmax(
    a: Any, axis: Axes = None, out: None = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    """Return the greatest number along some axes; NaN where there is none."""
    refuse_out(out, "nanmax")
    return _extreme("max", a, axis, keepdims, initial, where, float("-inf"))


@operation(static=("axis", "keepdims"))
def nanmin(
    a: Any, axis: Axes = None, out: None = None, keepdims: bool = False, initial: Any = None,
    where: Any = None,
) -> Any:  # fmt: skip
    """Return the least number along some axes; NaN where there is none."""
    refuse_out(out, "nanmin")
    return _extreme("min", a, axis, keepdims, initial, where, float("inf"))


@operation(static=("axis", "dtype", "keepdims"))
def nanmean(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    where: Any = None,
) -> Any:  # fmt: skip
    """Return the mean of the numbers along some axes."""
    return reductions.mean(a, axis, dtype, out, keepdims, where=_numbers(a, where))


@operation(static=_STATIC)
def nanvar(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, ddof: float = 0,
    keepdims: bool = False, where: Any = None, *, correction: float | None = None,
) -> Any:  # fmt: skip
    """Return the variance of the numbers along some axes; see `var`."""
    mask = _numbers(a, where)
    x = _filled(a, 0)
    return reductions.var(x, axis, dtype, out, ddof, keepdims, where=mask, correction=correction)


@operation(static=_STATIC)
def nanstd(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, ddof: float = 0,
    keepdims: bool = False, where: Any = None, *, correction: float | None = None,
) -> Any:  # fmt: skip
    """Return the standard deviation of the numbers along some axes; see `std`."""
    variance = nanvar(a, axis, dtype, out, ddof, keepdims, where, correction=correction)
    return tracing.unary("sqrt", variance)


def _place(function: Any, a: Any, axis: int | None, keepdims: bool, limit: float) -> Any:
    x = as_value(a)
    found = function(_filled(x, limit), axis, None, keepdims)
    if x.dtype.kind in "biu":
        return found
    has_none = reductions.all(compare("NE", x, x), axis, None, keepdims)
    return select(has_none, tracing.constant(-1, named("int32")), found)


@operation(static=("axis", "keepdims"))
def nanargmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
    """Return the index of the first greatest number; -1 where there are only NaNs."""
    refuse_out(out, "nanargmax")
    return _place(argmax, a, axis, keepdims, float("-inf"))


@operation(static=("axis", "keepdims"))
def nanargmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
    """Return the index of the first least number; -1 where there are only NaNs."""
    refuse_out(out, "nanargmin")
    return _place(argmin, a, axis, keepdims, float("inf"))


@operation(static=("axis", "dtype"))
def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Return the sums of all elements up to each one, NaNs as zero."""
    return cumsum(_filled(a, 0), axis, dtype, out)


@operation(static=("axis", "dtype"))
def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Return the products of all elements up to each one, NaNs as one."""
    return cumprod(_filled(a, 1), axis, dtype, out)
