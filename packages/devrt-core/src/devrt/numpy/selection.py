"""Choices between elements, by NumPy's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.numpy.arithmetic import maximum, minimum
from devrt.numpy.bits import isnan
from devrt.numpy.comparisons import truth
from devrt.numpy.limits import finfo, iinfo
from devrt.numpy.operands import dtype_of
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    at_user_line,
    broadcast_shapes,
    broadcast_to,
    compare,
    convert,
    emit_one,
    kind_of,
    parts,
    promote,
)
from devrt.tracing import select as choose_between

__all__ = ["choose_where", "clip", "nan_to_num", "piecewise", "select"]


@operation
def choose_where(condition: Any, x: Any, y: Any) -> Any:
    """Return elements of ``x`` where a condition is true, of ``y`` elsewhere."""
    return choose_between(truth(condition), x, y, "where")


def clip(
    x: Any = None,
    /,
    min: Any = None,
    max: Any = None,
    *,
    arr: Any = None,
    a_min: Any = None,
    a_max: Any = None,
) -> Any:
    """Return elements no smaller than ``min`` and no larger than ``max``; None is no bound."""
    x = arr if x is None else x
    low, high = (b if b is not None else a for a, b in ((a_min, min), (a_max, max)))
    return _clip(x, *(_within(x, bound) for bound in (low, high)))


def _within(x: Any, bound: Any) -> Any:
    """Return a bound that the dtype of integers holds: one beyond it bounds as much."""
    if type(bound) is not int or kind_of(dtype_of(x)) not in "iu":
        return bound
    limits = iinfo(dtype_of(x))
    return int(np.clip(bound, int(limits.min), int(limits.max)))


@operation
def _clip(x: Any, low: Any, high: Any) -> Any:
    if low is None and high is None:
        return as_value(x)
    if any(kind_of(dtype_of(each)) == "c" for each in (x, low, high) if each is not None):
        msg = f"clip of complex numbers{at_user_line()}: they have no order. Clip their parts."
        raise InvalidArgumentError(msg, operation="clip")
    if low is not None:
        x = maximum(x, low)
    return x if high is None else minimum(x, high)


@operation
def nan_to_num(x: Any, /, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Return elements with numbers in place of NaN and infinities: for those the largest ones."""
    x = as_value(x)
    kind = kind_of(x.dtype)
    if kind == "c":
        given = (nan_to_num(part, nan, posinf, neginf) for part in parts(x))
        return emit_one("stablehlo.complex", tuple(given), x.aval)
    if kind != "f":
        return x
    limits = finfo(x.dtype)
    most = float(limits.max) if posinf is None else posinf
    least = float(limits.min) if neginf is None else neginf
    nan, most, least = promote(nan, most, least, dtype=x.dtype)
    x = choose_between(isnan(x), nan, x)
    x = choose_between(compare("EQ", x, float("inf")), most, x)
    return choose_between(compare("EQ", x, float("-inf")), least, x)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Any:
    """Return elements of the first choice whose condition is true; else of ``default``."""
    if len(condlist) != len(choicelist) or not len(condlist):
        msg = (
            f"select takes as many choices as conditions, and one at least: {len(choicelist)} and "
            f"{len(condlist)} were given."
        )
        raise InvalidArgumentError(msg, operation="select")
    return _select(list(condlist), list(choicelist), default)


@operation
def _select(conditions: list[Any], choices: list[Any], default: Any) -> Any:
    *choices, result = promote(*choices, default)
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = choose_between(truth(condition), choice, result)
    shape = broadcast_shapes(*(as_value(each).shape for each in (*conditions, *choices)))
    return result if result.shape == shape else broadcast_to(result, shape)


def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Any:
    """Return for each element what the function of the last true condition gives for it.

    A function takes all elements; a number stands for itself. One function more than conditions is
    for elements of which none is true, 0 otherwise.
    """
    conditions = list(condlist) if isinstance(condlist, list | tuple) else [condlist]
    functions = list(funclist)
    if len(functions) == len(conditions):
        functions.append(0)
    if len(functions) != len(conditions) + 1:
        msg = (
            f"piecewise takes a function for each of {len(conditions)} conditions, and one more "
            f"for no condition: {len(functions)} were given."
        )
        raise InvalidArgumentError(msg, operation="piecewise")
    values = [f(x, *args, **kw) if isinstance(f, Callable) else f for f in functions]  # type: ignore[arg-type]
    return _piecewise(x, conditions, values)


@operation
def _piecewise(x: Any, conditions: list[Any], values: list[Any]) -> Any:
    x = as_value(x)
    *values, result = (convert(as_value(value), x.dtype) for value in values)
    for condition, value in zip(conditions, values, strict=True):
        result = choose_between(truth(condition), value, result)
    return result if result.shape == x.shape else broadcast_to(result, x.shape)
