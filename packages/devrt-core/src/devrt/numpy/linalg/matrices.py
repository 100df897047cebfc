"""Functions of matrices as the array API standard has them in its ``linalg``."""

from __future__ import annotations

from typing import Any

from devrt.errors import InvalidArgumentError
from devrt.numpy import diagonals, products
from devrt.numpy.arguments import axis_of, shape_at
from devrt.tracing import at_user_line

__all__ = ["cross", "diagonal", "outer", "trace"]


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Return the cross products of vectors of three components along an axis."""
    for x in (x1, x2):
        shape = shape_at(x, "linalg.cross")
        if shape[axis_of(axis, len(shape), "linalg.cross")] != 3:
            msg = f"linalg.cross: axis {axis} of the shape {shape} is not of size 3"
            raise InvalidArgumentError(f"{msg}{at_user_line()}.", shape=shape, axis=axis)
    return products.cross(x1, x2, axis=axis)


def diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """Return the diagonals of matrices, which lie along the last two axes."""
    return diagonals.diagonal(x, offset, -2, -1)


def outer(x1: Any, x2: Any, /) -> Any:
    """Return the products of each element of one vector with each of the other."""
    for x in (x1, x2):
        if len(shape_at(x, "linalg.outer")) != 1:
            msg = f"linalg.outer takes vectors, not the shape {tuple(x.shape)}{at_user_line()}."
            raise InvalidArgumentError(msg, shape=tuple(x.shape))
    return products.outer(x1, x2)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Return the sums of the diagonals of matrices, which lie along the last two axes."""
    return diagonals.trace(x, offset, -2, -1, dtype)
