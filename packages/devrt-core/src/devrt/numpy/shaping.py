"""Arrays in other shapes: reshaped, transposed, with dimensions more or fewer, broadcast."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import array_of, axes_of, axis_of, shape_of
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line
from devrt.tracing.matrices import transposed

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "expand_dims",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "reshape",
    "rollaxis",
    "squeeze",
    "swapaxes",
    "transpose",
]


@operation(static=("shape", "order", "copy"))
def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """Return the elements in another shape; one size may be -1.

    ``order`` is the order in which they are read and written: ``"C"``, the last index the fastest,
    or ``"F"``, the first.
    """
    del copy  # no array is ever written to: whether it is another memory is not to be seen
    x = as_value(a)
    sizes = _sizes(x, shape_of(shape))
    if order == "F":
        return transpose(tracing.reshape(transpose(x), sizes[::-1]))
    _check_order(order, "reshape")
    return tracing.reshape(x, sizes)


def _check_order(order: str, operation: str) -> None:
    if order not in ("C", "A", "K"):
        msg = f"{operation}: the order is 'C' or 'F', not {order!r}{at_user_line()}."
        raise InvalidArgumentError(msg, order=order)


def _sizes(x: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with -1 replaced by the size that it stands for."""
    known = math.prod(size for size in shape if size != -1)
    if shape.count(-1) == 1 and known > 0 and x.size % known == 0:
        return tuple(x.size // known if size == -1 else size for size in shape)
    if -1 in shape or known != x.size or any(size < 0 for size in shape):
        msg = f"reshape: {x.aval} has {x.size} elements, the shape {shape} does not fit them"
        raise InvalidArgumentError(f"{msg}{at_user_line()}.", shape=shape, size=x.size)
    return shape


@operation(static=("order",))
def ravel(a: Any, order: str = "C") -> Any:
    """Return the elements in one dimension."""
    x = as_value(a)
    return reshape(x, (x.size,), order=order)


@operation(static=("axes",))
def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """Return an array with its dimensions in another order, by default the reverse."""
    x = as_value(a)
    if axes is None:
        return tracing.transpose(x, tuple(reversed(range(x.ndim))))
    order = axes_of(axes, x.ndim, "transpose")
    if len(order) != x.ndim:
        msg = f"transpose: the axes {tuple(axes)} are not all of those of {x.aval}"
        raise InvalidArgumentError(f"{msg}{at_user_line()}.", axes=tuple(axes), ndim=x.ndim)
    return tracing.transpose(x, order)


def permute_dims(a: Any, /, axes: Sequence[int]) -> Any:
    """Return an array with its dimensions in the order of ``axes``."""
    return transpose(a, axes)


@operation
def matrix_transpose(x: Any, /) -> Any:
    """Return an array with its last two dimensions exchanged."""
    x = as_value(x)
    if x.ndim < 2:
        msg = f"matrix_transpose: {x.aval} has fewer than two dimensions{at_user_line()}."
        raise InvalidArgumentError(msg, ndim=x.ndim)
    return transposed(x)


@operation(static=("axis1", "axis2"))
def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Return an array with two dimensions exchanged."""
    x = as_value(a)
    order = list(range(x.ndim))
    first, second = axis_of(axis1, x.ndim, "swapaxes"), axis_of(axis2, x.ndim, "swapaxes")
    order[first], order[second] = second, first
    return tracing.transpose(x, order)


@operation(static=("source", "destination"))
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """Return an array with some dimensions at other positions, the others in their order."""
    x = as_value(a)
    taken, put = axes_of(source, x.ndim, "moveaxis"), axes_of(destination, x.ndim, "moveaxis")
    if len(taken) != len(put):
        msg = f"moveaxis: {source} and {destination} are not as many axes{at_user_line()}."
        raise InvalidArgumentError(msg, source=source, destination=destination)
    order = [i for i in range(x.ndim) if i not in taken]
    for position, i in sorted(zip(put, taken, strict=True)):
        order.insert(position, i)
    return tracing.transpose(x, order)


@operation(static=("axis", "start"))
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """Return an array with one dimension moved to before another; use `moveaxis`."""
    x = as_value(a)
    moved = axis_of(axis, x.ndim, "rollaxis")
    target = x.ndim if start == x.ndim else axis_of(start, x.ndim, "rollaxis")
    return moveaxis(x, moved, target - 1 if moved < target else target)


@operation(static=("axis",))
def expand_dims(a: Any, axis: Any) -> Any:
    """Return an array with dimensions of size 1 at some positions of the result."""
    x = as_value(a)
    count = len(axis) if isinstance(axis, Sequence) else 1
    places = set(axes_of(axis, x.ndim + count, "expand_dims"))
    rest = iter(x.shape)
    sizes = tuple(1 if i in places else next(rest) for i in range(x.ndim + count))
    return tracing.reshape(x, sizes)


@operation(static=("axis",))
def squeeze(a: Any, axis: Any = None) -> Any:
    """Return an array without some dimensions of size 1, by default without all of them."""
    x = as_value(a)
    if axis is None:
        return tracing.reshape(x, tuple(size for size in x.shape if size != 1))
    gone = set(axes_of(axis, x.ndim, "squeeze"))
    for i in sorted(gone):
        if x.shape[i] != 1:
            msg = f"squeeze: axis {i} of {x.aval} is of size {x.shape[i]}, not 1{at_user_line()}."
            raise InvalidArgumentError(msg, axis=i, shape=x.shape)
    return tracing.reshape(x, tuple(size for i, size in enumerate(x.shape) if i not in gone))


@operation(static=("shape",))
def broadcast_to(array: Any, shape: Any) -> Any:
    """Return an array repeated along new dimensions, and those of size 1, to a shape."""
    x, sizes = as_value(array), shape_of(shape)
    if tracing.broadcast_shapes(x.shape, sizes, operation="broadcast_to") != sizes:
        msg = f"broadcast_to: {x.aval} does not broadcast to the shape {sizes}{at_user_line()}."
        raise InvalidArgumentError(msg, shapes=(x.shape, sizes))
    return tracing.broadcast_to(x, sizes)


@operation
def broadcast_arrays(*args: Any) -> list[Any]:
    """Return arrays broadcast to the shape that they have in common."""
    return tracing.broadcast(*args, operation="broadcast_arrays") if args else []


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """Return the shape that all shapes broadcast to."""
    if not shapes:
        return ()
    return tracing.broadcast_shapes(*map(shape_of, shapes), operation="broadcast_shapes")


def atleast_1d(*arys: Any) -> Any:
    """Return arrays with one dimension or more; one of none has one element."""
    return _at_least(lambda shape: shape or (1,), arys)


def atleast_2d(*arys: Any) -> Any:
    """Return arrays with two dimensions or more; new ones come first."""
    return _at_least(lambda shape: (1,) * (2 - len(shape)) + shape, arys)


def atleast_3d(*arys: Any) -> Any:
    """Return arrays with three dimensions or more; a matrix's elements each get one of size 1."""
    return _at_least(_of_three, arys)


def _of_three(shape: tuple[int, ...]) -> tuple[int, ...]:
    return {0: (1, 1, 1), 1: (1, *shape, 1), 2: (*shape, 1)}.get(len(shape), shape)


def _at_least(target: Any, arrays: tuple[Any, ...]) -> Any:
    made = [array_of(x) for x in arrays]
    shaped = [reshape(x, target(tuple(x.shape))) for x in made]
    return shaped[0] if len(shaped) == 1 else shaped
