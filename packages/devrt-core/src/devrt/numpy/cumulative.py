"""Sums and products of all elements up to each one."""

from __future__ import annotations

from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axis_of, refuse_out
from devrt.numpy.reductions import computed_in, widened
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, convert, dtype_of, named

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum"]


@operation(static=("axis", "dtype"))
def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Return the sums of all elements up to each one along an axis, by default of all elements."""
    refuse_out(out, "cumsum")
    return _cumulative("cumsum", "add", a, axis, dtype, 0)


@operation(static=("axis", "dtype"))
def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: None = None) -> Any:
    """Return the products of all elements up to each one along an axis, by default of all."""
    refuse_out(out, "cumprod")
    return _cumulative("cumprod", "multiply", a, axis, dtype, 1)


def _cumulative(name: str, op: str, a: Any, axis: int | None, dtype: Any, identity: int) -> Any:
    x = as_value(a)
    if axis is None:
        x = tracing.reshape(x, (x.size,))
    dimension = axis_of(axis or 0, x.ndim, name)
    is_bool = x.dtype == named("bool")
    result = dtype_of(dtype) if dtype is not None else named("int32") if is_bool else x.dtype
    if not x.size:
        return convert(x, result)
    made = tracing.cumulative(op, convert(x, computed_in(result)), identity, dimension)
    return convert(made, result, weak_type=x.weak_type and dtype is None)


@operation(static=("axis", "dtype", "include_initial"))
def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Return the sums of all elements up to each one along an axis; integers become 32 bits wide.

    With ``include_initial`` a zero comes before them.
    """
    return _standard("cumulative_sum", cumsum, x, axis, dtype, 0 if include_initial else None)


@operation(static=("axis", "dtype", "include_initial"))
def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Any:
    """Return the products of all elements up to each one along an axis; integers of 32 bits.

    With ``include_initial`` a one comes before them.
    """
    return _standard("cumulative_prod", cumprod, x, axis, dtype, 1 if include_initial else None)


def _standard(
    name: str, function: Any, a: Any, axis: int | None, dtype: Any, initial: int | None
) -> Any:
    x = as_value(a)
    if x.ndim == 0 or (axis is None and x.ndim > 1):
        why = "of no dimensions" if not x.ndim else "of several dimensions needs an axis"
        msg = f"{name}: an array {why}{at_user_line()}: {x.aval}."
        raise InvalidArgumentError(msg, axis=axis, shape=x.shape)
    dimension = axis_of(axis or 0, x.ndim, name)
    made = function(x, dimension, widened(x.dtype) if dtype is None else dtype)
    if initial is None:
        return made
    low = tuple(int(i == dimension) for i in range(x.ndim))
    return tracing.pad(made, initial, low, (0,) * x.ndim)
