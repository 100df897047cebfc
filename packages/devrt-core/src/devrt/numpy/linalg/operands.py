"""Operands of linear algebra: matrices of a dtype that it is computed in."""

from __future__ import annotations

from typing import Any

from devrt.errors import InvalidArgumentError
from devrt.numpy.reductions import computed_in
from devrt.tracing import as_value, at_user_line, convert, inexact

__all__ = ["matrices", "square_matrices"]


def matrices(a: Any, operation: str) -> tuple[Any, Any]:
    """Return matrices of the dtype that is computed in, and the dtype of the result.

    Raises
    ------
    InvalidArgumentError
        If there are fewer than two dimensions.
    """
    x = as_value(a)
    if x.ndim < 2:
        msg = f"linalg.{operation} takes matrices, not {x.aval}{at_user_line()}."
        raise InvalidArgumentError(msg, ndim=x.ndim)
    dtype = inexact(x.dtype)
    return convert(x, computed_in(dtype)), dtype


def square_matrices(a: Any, operation: str) -> tuple[Any, Any]:
    """Return what `matrices` does, of matrices with as many rows as columns.

    Raises
    ------
    InvalidArgumentError
        If they have not.
    """
    x, dtype = matrices(a, operation)
    if x.shape[-1] != x.shape[-2]:
        msg = f"linalg.{operation} takes square matrices, not {x.aval}{at_user_line()}."
        raise InvalidArgumentError(msg, shape=x.shape)
    return x, dtype
