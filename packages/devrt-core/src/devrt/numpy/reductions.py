"""Sums and other functions of all elements, or of those along some axes.

Integers narrower than 32 bits are summed and multiplied in 32, as the array API standard has it;
fractions of 16 bits in float32, and the result is of their own dtype.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import Axes, axes_of, refuse_out
from devrt.numpy.comparisons import truth
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    at_user_line,
    convert,
    dtype_of,
    extreme,
    inexact,
    kind_of,
    named,
    real_of,
)

__all__ = [
    "all",
    "any",
    "count_nonzero",
    "keep",
    "max",
    "mean",
    "min",
    "prod",
    "ptp",
    "std",
    "sum",
    "var",
]

_STATIC = ("axis", "dtype", "keepdims", "promote_integers")


def computed_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that many elements of one are summed in."""
    return named("float32") if dtype.itemsize < 4 and kind_of(dtype) == "f" else dtype


def widened(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of a sum: of integers, and of truth values, one of 32 bits or more."""
    if dtype.itemsize >= 4 or kind_of(dtype) not in "biu":
        return dtype
    return named("uint32" if kind_of(dtype) == "u" else "int32")


def keep(x: Any, axes: tuple[int, ...], shape: tuple[int, ...], keepdims: bool) -> Any:
    """Return a reduced value with the axes of its operand as dimensions of size 1, if wanted."""
    if not keepdims:
        return x
    return tracing.reshape(x, tuple(1 if i in axes else n for i, n in enumerate(shape)))


def _masked(operation: str, x: Any, where: Any, identity: Any) -> Any:
    """Return elements where a mask is true, elsewhere an operation's identity."""
    if where is None:
        return x
    mask = convert(as_value(where), named("bool"))
    return tracing.select(mask, x, tracing.constant(identity, x.dtype), f"{operation}'s where")


def _fold(
    operation: str, name: str, x: Any, axis: Axes, keepdims: bool, initial: Any, where: Any,
    identity: Any,
) -> Any:  # fmt: skip
    """Return a value reduced by ``stablehlo.NAME``, combined with ``initial`` where given."""
    is_weak = x.weak_type
    x = _masked(operation, x, where, identity)
    axes = axes_of(axis, x.ndim, operation)
    made = tracing.reduce(name, x, identity, axes)
    if initial is not None:
        made = tracing.nary(name, made, convert(as_value(initial), x.dtype))
    return convert(keep(made, axes, x.shape, keepdims), x.dtype, weak_type=is_weak)


def _accumulated(
    operation: str, name: str, a: Any, axis: Axes, dtype: Any, keepdims: bool, initial: Any,
    where: Any, promote_integers: bool, identity: int,
) -> Any:  # fmt: skip
    x = as_value(a)
    given = dtype_of(dtype) if dtype is not None else x.dtype
    result = (
        widened(given) if dtype is None and (promote_integers or x.dtype.kind == "b") else given
    )
    inner = computed_in(result)
    is_weak = x.weak_type and dtype is None
    made = _fold(operation, name, convert(x, inner), axis, keepdims, initial, where, identity)
    return convert(made, result, weak_type=is_weak)


@operation(static=_STATIC)
def sum(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None, promote_integers: bool = True,
) -> Any:  # fmt: skip
    """Return the sum over some axes, by default all."""
    refuse_out(out, "sum")
    numbers = initial, where, promote_integers
    return _accumulated("sum", "add", a, axis, dtype, keepdims, *numbers, 0)


@operation(static=_STATIC)
def prod(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None, promote_integers: bool = True,
) -> Any:  # fmt: skip
    """Return the product over some axes, by default all."""
    refuse_out(out, "prod")
    numbers = initial, where, promote_integers
    return _accumulated("prod", "multiply", a, axis, dtype, keepdims, *numbers, 1)


def _extreme(
    operation: str, a: Any, axis: Axes, keepdims: bool, initial: Any, where: Any, is_max: bool
) -> Any:
    x = as_value(a)
    axes = axes_of(axis, x.ndim, operation)
    if initial is None and (where is not None or not math.prod(x.shape[i] for i in axes)):
        missing = "where= is given" if where is not None else "there are no elements"
        msg = f"{operation}: {missing}, so initial= must be given too{at_user_line()}: {x.aval}."
        raise InvalidArgumentError(msg, axis=axis, shape=x.shape)
    if x.dtype.kind == "c":
        return _extreme_complex(operation, x, axes, keepdims, initial, where, is_max)
    identity = extreme(x.dtype, greatest=not is_max)
    if x.dtype.kind == "b":
        name, is_max = ("or", True) if is_max else ("and", False)
    else:
        name = "maximum" if is_max else "minimum"
    return _fold(operation, name, x, axis, keepdims, initial, where, identity)


def _extreme_complex(
    operation: str, x: Any, axes: tuple[int, ...], keepdims: bool, initial: Any, where: Any,
    is_max: bool,
) -> Any:  # fmt: skip
    """Return the greatest by real part, then by imaginary part."""
    first = None if initial is None else convert(as_value(initial), x.dtype)
    if where is not None:  # and then there is an initial one, which stands for what is left out
        mask = convert(as_value(where), named("bool"))
        x = tracing.select(mask, x, first, f"{operation}'s where")
    kept = [i for i in range(x.ndim) if i not in axes]
    rows = tracing.transpose(x, [*kept, *axes])
    shape = tuple(x.shape[i] for i in kept)
    size = math.prod(x.shape[i] for i in axes)
    rows = tracing.reshape(rows, (*shape, size))
    if first is not None:
        rows = tracing.concatenate([rows, tracing.broadcast_to(first, (*shape, 1))], len(shape))
        size += 1
    (ordered,) = tracing.sort([rows], len(shape))
    at = size - 1 if is_max else 0
    low = (0,) * len(shape)
    found = tracing.slice_(ordered, (*low, at), (*shape, at + 1))
    return keep(tracing.reshape(found, shape), axes, x.shape, keepdims)


_EXTREME = ("axis", "keepdims")


@operation(static=_EXTREME)
def max(
    a: Any, axis: Axes = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None,
) -> Any:  # fmt: skip
    """Return the greatest element along some axes, by default of all; NaN where there is one."""
    refuse_out(out, "max")
    return _extreme("max", a, axis, keepdims, initial, where, True)


@operation(static=_EXTREME)
def min(
    a: Any, axis: Axes = None, out: None = None, keepdims: bool = False,
    initial: Any = None, where: Any = None,
) -> Any:  # fmt: skip
    """Return the least element along some axes, by default of all; NaN where there is one."""
    refuse_out(out, "min")
    return _extreme("min", a, axis, keepdims, initial, where, False)


amax = max
amin = min


def ptp(a: Any, axis: Axes = None, out: None = None, keepdims: bool = False) -> Any:
    """Return how far the greatest and the least element are apart."""
    return max(a, axis, out, keepdims) - min(a, axis, out, keepdims)


@operation(static=("axis", "keepdims"))
def all(
    a: Any, axis: Axes = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Return whether all elements along some axes are true, or not zero."""
    refuse_out(out, "all")
    return _fold("all", "and", truth(a), axis, keepdims, None, where, True)


@operation(static=("axis", "keepdims"))
def any(
    a: Any, axis: Axes = None, out: None = None, keepdims: bool = False, *, where: Any = None
) -> Any:
    """Return whether some element along some axes is true, or not zero."""
    refuse_out(out, "any")
    return _fold("any", "or", truth(a), axis, keepdims, None, where, False)


@operation(static=("axis", "keepdims"))
def count_nonzero(a: Any, axis: Axes = None, keepdims: bool = False) -> Any:
    """Return how many elements along some axes are not zero."""
    counted = convert(truth(a), named("int32"))
    return _fold("count_nonzero", "add", counted, axis, keepdims, None, None, 0)


# -- means --------------------------------------------------------------------------------------


def _count(x: Any, axes: tuple[int, ...], where: Any, dtype: np.dtype[Any]) -> Any:
    """Return how many elements a mean is of: a number, or a value for each result."""
    if where is None:
        return tracing.constant(float(math.prod(x.shape[i] for i in axes)), dtype)
    mask = tracing.broadcast_to(convert(as_value(where), dtype), x.shape)
    return keep(tracing.reduce("add", mask, 0, axes), axes, x.shape, True)


def _mean(x: Any, axes: tuple[int, ...], where: Any) -> Any:
    """Return the mean over axes, which stay as dimensions of size 1."""
    total = _fold("mean", "add", x, axes, True, None, where, 0)
    real = real_of(x.dtype)
    count = convert(_count(x, axes, where, real), x.dtype)
    return tracing.binary("divide", total, count)


def _dropped(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    if keepdims:
        return x
    return tracing.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


@operation(static=("axis", "dtype", "keepdims"))
def mean(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, keepdims: bool = False,
    *, where: Any = None,
) -> Any:  # fmt: skip
    """Return the mean over some axes, of a dtype of fractions."""
    refuse_out(out, "mean")
    x = as_value(a)
    result = inexact(x.dtype) if dtype is None else dtype_of(dtype)
    axes = axes_of(axis, x.ndim, "mean")
    made = _mean(convert(x, computed_in(inexact(result))), axes, where)
    is_weak = x.weak_type and dtype is None
    return convert(_dropped(made, axes, keepdims), result, weak_type=is_weak)


@operation(static=("axis", "dtype", "ddof", "keepdims", "correction"))
def var(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = None, correction: float | None = None,
) -> Any:  # fmt: skip
    """Return the variance over some axes.

    The mean of the squared distances from the mean, times n / (n - correction). ``ddof`` is another
    name of the correction. Of complex elements it is real.
    """
    refuse_out(out, "var")
    if correction is not None and ddof:
        msg = f"var: ddof and correction mean the same, give one of them{at_user_line()}."
        raise InvalidArgumentError(msg, ddof=ddof, correction=correction)
    x = as_value(a)
    result = inexact(real_of(x.dtype)) if dtype is None else real_of(dtype_of(dtype))
    axes = axes_of(axis, x.ndim, "var")
    inner = computed_in(tracing.promotion.widest([inexact(result), inexact(x.dtype)]))
    x = convert(x, inner)
    distance = tracing.binary("subtract", x, _mean(x, axes, where))
    square = tracing.squared_size(distance)
    total = _fold("var", "add", square, axes, True, None, where, 0)
    less = float(ddof if correction is None else correction)
    count = tracing.binary("subtract", _count(x, axes, where, square.dtype), less)
    count = tracing.binary("maximum", count, 0.0)
    made = _dropped(tracing.binary("divide", total, count), axes, keepdims)
    return convert(made, result)


@operation(static=("axis", "dtype", "ddof", "keepdims", "correction"))
def std(
    a: Any, axis: Axes = None, dtype: Any = None, out: None = None, ddof: float = 0,
    keepdims: bool = False, *, where: Any = None, correction: float | None = None,
) -> Any:  # fmt: skip
    """Return the square root of the variance over some axes; see `var`."""
    refuse_out(out, "std")
    variance = var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=where, correction=correction)
    return tracing.unary("sqrt", variance)
