"""Arguments of NumPy's functions that decide shapes and dtypes: axes, sizes, dtypes."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.tracing import as_value, at_user_line

__all__ = [
    "Axes",
    "array_of",
    "axes_of",
    "axis_of",
    "refuse_out",
    "shape_at",
    "shape_of",
    "values_of",
]

Axes = int | Sequence[int] | None
Shape = tuple[int, ...]


def axis_of(axis: Any, ndim: int, operation: str) -> int:
    """Return an axis counted from the first one.

    Raises
    ------
    InvalidArgumentError
        If the array has no such axis.
    InvalidTypeError
        If it is no integer.
    """
    try:
        index = operator.index(axis)
    except TypeError as error:
        if hasattr(axis, "aval"):
            raise
        msg = f"{operation}: an axis is an integer, not {axis!r}{at_user_line()}."
        raise InvalidTypeError(msg, axis=axis) from error
    if not -ndim <= index < ndim:
        msg = f"{operation}: there is no axis {index} in an array of {ndim} dimensions"
        raise InvalidArgumentError(f"{msg}{at_user_line()}.", axis=index, ndim=ndim)
    return index % ndim


def axes_of(axis: Axes, ndim: int, operation: str) -> Shape:
    """Return axes counted from the first one; all of them for None.

    Raises
    ------
    InvalidArgumentError
        If the array lacks one, or one is given twice.
    """
    if axis is None:
        return tuple(range(ndim))
    given = axis if isinstance(axis, Sequence) else (axis,)
    axes = tuple(axis_of(each, ndim, operation) for each in given)
    if len(set(axes)) < len(axes):
        msg = f"{operation}: an axis is given twice in {tuple(given)}{at_user_line()}."
        raise InvalidArgumentError(msg, axis=tuple(given))
    return axes


def shape_of(shape: Any) -> Shape:
    """Return a shape as a tuple; one integer is the shape of one dimension."""
    if isinstance(shape, Sequence) or (hasattr(shape, "ndim") and shape.ndim):
        return tuple(operator.index(size) for size in shape)
    return (operator.index(shape),)


def array_of(x: Any) -> Any:
    """Return an array or a traced value as it is, and anything else as an array."""
    if hasattr(x, "shape"):
        return x
    from devrt.numpy.creation import asarray

    return asarray(x)


def shape_at(x: Any, operation: str) -> Shape:
    """Return the shape of an array or of a number.

    Raises
    ------
    InvalidTypeError
        If it is neither.
    """
    if isinstance(x, bool | int | float | complex):
        return ()
    try:
        return tuple(x.shape)
    except AttributeError:
        msg = (
            f"{operation} takes arrays, not a value of type {type(x).__name__}{at_user_line()}. "
            "Make an array of it with devrt.numpy.asarray."
        )
        raise InvalidTypeError(msg, type=type(x).__name__) from None


def refuse_out(out: Any, operation: str) -> None:
    """Refuse an array to write to.

    Raises
    ------
    InvalidTypeError
        If there is one.
    """
    if out is not None:
        msg = (
            f"{operation}: arrays are immutable, so there is no out={at_user_line()}. Take the "
            "result that is returned."
        )
        raise InvalidTypeError(msg, operation=operation)


def values_of(arrays: Any, operation: str) -> list[Any]:
    """Return the values of a sequence of arrays, or those along an array's first dimension.

    Raises
    ------
    InvalidArgumentError
        If there are none.
    """
    values = [as_value(x) for x in arrays]
    if not values:
        msg = f"{operation} needs at least one array{at_user_line()}."
        raise InvalidArgumentError(msg, operation=operation)
    return values
