"""Where the greatest and the least elements are."""

from __future__ import annotations

from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axis_of, refuse_out
from devrt.numpy.reductions import keep
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, binary, compare, extreme, named, select

__all__ = ["argmax", "argmin"]


@operation(static=("axis", "keepdims"))
def argmax(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
    """Return the index of the first greatest element, or of the first NaN: int32.

    Without an axis it counts the elements of all dimensions.
    """
    refuse_out(out, "argmax")
    return _found("argmax", "GT", a, axis, keepdims)


@operation(static=("axis", "keepdims"))
def argmin(a: Any, axis: int | None = None, out: None = None, keepdims: bool = False) -> Any:
    """Return the index of the first least element, or of the first NaN: int32.

    Without an axis it counts the elements of all dimensions.
    """
    refuse_out(out, "argmin")
    return _found("argmin", "LT", a, axis, keepdims)


def _found(name: str, direction: str, a: Any, axis: int | None, keepdims: bool) -> Any:
    x = as_value(a)
    shape, ndim = x.shape, x.ndim
    if axis is None:
        x = tracing.reshape(x, (x.size,))
    dimension = axis_of(axis or 0, x.ndim, name)
    if not x.shape[dimension]:
        msg = f"{name}: there are no elements along the axis{at_user_line()}: {x.aval}."
        raise InvalidArgumentError(msg, axis=axis, shape=shape)
    index = tracing.iota(x.shape, dimension, named("int32"))
    # No element gives way to the start, as its index comes after all others.
    start = extreme(x.dtype, greatest=direction == "LT")
    starts = [tracing.constant(start, x.dtype), tracing.constant(2**31 - 1, named("int32"))]

    def chosen(x1: Any, i1: Any, x2: Any, i2: Any) -> tuple[Any, Any]:
        nan1, nan2 = compare("NE", x1, x1), compare("NE", x2, x2)
        is_first = binary("or", compare(direction, x1, x2), _and_not(nan1, nan2))
        is_equal = binary("or", compare("EQ", x1, x2), binary("and", nan1, nan2))
        earlier = binary("and", is_equal, compare("LT", i1, i2))
        is_one = binary("or", is_first, earlier)
        return select(is_one, x1, x2), select(is_one, i1, i2)

    found = tracing.reduce_by(chosen, [x, index], starts, [dimension])[1]
    axes = tuple(range(ndim)) if axis is None else (dimension,)
    return keep(found, axes, shape, keepdims)


def _and_not(x: Any, y: Any) -> Any:
    return binary("and", x, tracing.unary("not", y))
