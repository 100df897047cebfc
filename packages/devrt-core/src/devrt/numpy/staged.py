"""Arrays that a traced function makes: constants and positions of its program."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.numpy.operands import BOOL, dtype_of
from devrt.programs.eager import operation
from devrt.tracing import (
    Tracer,
    Value,
    as_value,
    at_user_line,
    binary,
    broadcast_shapes,
    broadcast_to,
    compare,
    concatenate,
    constant,
    convert,
    iota,
    named,
    promote,
    reshape,
    unary,
)

__all__ = [
    "below_diagonal",
    "checked_bound",
    "full",
    "has_values",
    "line",
    "progression",
    "stacked",
]

Dtype = np.dtype[Any]


def _sizes(shape: Any) -> tuple[int, ...]:
    """Return a shape that may be given as one number."""
    given = shape if isinstance(shape, Sequence) else np.atleast_1d(shape)
    return tuple(operator.index(size) for size in given)


def full(shape: Any, value: Any, dtype: Dtype | None) -> Any:
    """Return a value of a shape, of one element or of several broadcast to it."""
    sizes = _sizes(shape if not isinstance(shape, Value) else [shape])
    target = dtype_of(value) if dtype is None else dtype
    if isinstance(value, bool | int | float | complex | np.generic):
        is_weak = dtype is None and type(value) in (int, float, complex)
        return constant(value, target, sizes, weak_type=is_weak)
    filling = convert(as_value(value), target)
    if broadcast_shapes(filling.shape, sizes, operation="full") != sizes:
        msg = (
            f"a fill_value of shape {filling.shape} does not broadcast to the shape "
            f"{sizes}{at_user_line()}."
        )
        raise InvalidArgumentError(msg, shape=sizes)
    return broadcast_to(filling, sizes)


def checked_bound(value: Any) -> Any:
    """Return a number that decides a shape; a traced one raises what says so."""
    return operator.index(value) if isinstance(value, Tracer) else value


def progression(host: np.ndarray[Any, Any]) -> Any:
    """Return evenly spaced numbers: as a constant if they are few, else as positions."""
    if host.nbytes <= 1024:
        return as_value(host)
    step = host[1] - host[0]
    positions = convert(iota(host.shape, 0, named("int32")), host.dtype)
    return binary("add", binary("multiply", positions, step), host[0])


@operation(static=("num", "endpoint", "dtype"))
def line(start: Any, stop: Any, num: int, endpoint: bool, dtype: Dtype) -> Any:
    """Return ``num`` values from one to another, in a new first dimension."""
    start, stop = promote(start, stop, dtype=dtype if dtype.kind in "fcV" else named("float32"))
    shape = broadcast_shapes(start.shape, stop.shape, operation="linspace")
    steps = max(num - 1 if endpoint else num, 1)
    along = (num, *(1 for _ in shape))
    at = reshape(convert(iota((num,), 0, named("int32")), start.dtype), along)
    share = binary("divide", at, steps)
    rest = binary("subtract", 1, share)
    values = binary("add", binary("multiply", start, rest), binary("multiply", stop, share))
    if dtype.kind in "iu":
        values = unary("floor", values)
    return convert(values, dtype)


@operation(static=("rows", "columns", "offset", "dtype", "direction"))
def below_diagonal(rows: int, columns: int, offset: int, dtype: Dtype, direction: str) -> Any:
    """Return ones where ``column - row`` is EQ or LE to an offset, zeros elsewhere."""
    down, along = (iota((rows, columns), i, named("int32")) for i in (0, 1))
    return convert(compare(direction, binary("subtract", along, down), offset), dtype)


def has_values(tree: Any) -> bool:
    """Return whether nested sequences hold a value of a trace."""
    if isinstance(tree, list | tuple):
        return any(has_values(each) for each in tree)
    return isinstance(tree, Value)


def stacked(tree: Any) -> Any:
    """Return nested sequences of values and numbers as one value."""
    if not isinstance(tree, list | tuple):
        return tree
    if not tree:
        return constant(np.zeros(0, np.float32), named("float32"))
    values = promote(*(stacked(each) for each in tree))
    shapes = {value.shape for value in values}
    if len(shapes) > 1:
        msg = f"the parts of an array differ in shape: {sorted(shapes)}{at_user_line()}."
        raise InvalidArgumentError(msg, shapes=shapes)
    return concatenate([reshape(value, (1, *value.shape)) for value in values], 0)


def strong(x: Any, dtype: Dtype | None) -> Any:
    """Return a value of a dtype, by default of its own, that does not give way to others."""
    value = as_value(x)
    target = value.dtype if dtype is None else dtype
    if target == BOOL and value.dtype != BOOL:
        return compare("NE", value, 0)
    return convert(value, target)
