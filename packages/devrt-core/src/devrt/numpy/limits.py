"""Dtypes by their names, and their limits."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt import dtypes
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.tracing import at_user_line, integer_limits, kind_of

__all__ = ["as_dtype", "dtype_beside", "dtype_for", "finfo", "iinfo"]


def as_dtype(dtype: Any) -> np.dtype[Any] | None:
    """Return the dtype of a name or a type; None for None."""
    return None if dtype is None else dtypes.to_numpy(dtypes.code_of(dtype))


def dtype_for(dtype: Any, operation: str) -> np.dtype[Any]:
    """Return the NumPy dtype that an operation was given.

    Raises
    ------
    InvalidTypeError
        If it is none; names the operation.
    """
    try:
        return dtypes.to_numpy(dtypes.code_of(dtype))
    except InvalidTypeError as error:
        msg = f"{operation}{at_user_line()}: {error.message}"
        raise InvalidTypeError(msg, operation=operation, dtype=str(dtype)) from None


def dtype_beside(shape: Any, dtype: Any, operation: str) -> np.dtype[Any]:
    """Resolve a dtype, float32 by default, that is no second size of the shape.

    Raises
    ------
    InvalidTypeError
        If it is one, or no dtype; names the operation.
    """
    if isinstance(dtype, int | np.integer) and isinstance(shape, int | np.integer):
        msg = (
            f"{operation}({shape}, {dtype}) has {dtype} for its dtype{at_user_line()}. Did you "
            f"mean {operation}(({shape}, {dtype}))?"
        )
        raise InvalidTypeError(msg, operation=operation, dtype=dtype)
    return np.dtype(np.float32) if dtype is None else dtype_for(dtype, operation)


def _of(x: Any) -> Any:
    """Return the dtype of an array; a class of NumPy's scalars stands for its dtype itself."""
    return x if isinstance(x, type) else getattr(x, "dtype", x)


def finfo(dtype: Any) -> Any:
    """Return the limits of a dtype of fractions, those of ml_dtypes included."""
    given = as_dtype(_of(dtype))
    assert given is not None
    if given.kind in "fc" and given.name.startswith(("float16", "float32", "float64", "complex")):
        return np.finfo(given)
    if kind_of(given) != "f":
        msg = f"finfo of {given}: it is of dtypes of fractions. Use iinfo for integers."
        raise InvalidArgumentError(msg, operation="finfo", dtype=str(given))
    import ml_dtypes

    return ml_dtypes.finfo(given)  # type: ignore[no-untyped-call]


def iinfo(dtype: Any) -> Any:
    """Return the limits of a dtype of integers, those of ml_dtypes included."""
    given = as_dtype(_of(dtype))
    assert given is not None
    if kind_of(given) not in "iu":
        msg = f"iinfo of {given}: it is of dtypes of integers. Use finfo for fractions."
        raise InvalidArgumentError(msg, operation="iinfo", dtype=str(given))
    return integer_limits(given)
