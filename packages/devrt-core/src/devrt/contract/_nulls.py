"""Host arrays with missing elements: refused, as NumPy reads most of them as NaN in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devrt.errors import InvalidTypeError

__all__ = ["refuse_nulls"]


def refuse_nulls(x: object, operation: str = "device_put") -> None:
    """Raise unless every element of a host value is there.

    Masked arrays of NumPy, and arrays, columns and tables of polars, pyarrow and pandas (nullable
    dtypes) tell which are missing. NaN is a value. No library is imported.

    Raises
    ------
    InvalidTypeError
        If elements are missing; says how many, and of what type the value is.
    """
    for base in type(x).__mro__:
        count = _COUNTS.get(base.__module__.partition(".")[0])
        if count is not None:
            break
    else:
        return
    missing = count(x)
    if missing:
        kind = type(x).__name__
        msg = (
            f"{operation} cannot take this value of type {kind}: {missing} of its elements are "
            "masked or null, and a device has no mask. Fill them first (x.filled, x.fill_null or "
            "x.fillna), or pass the values and their mask as two arrays."
        )
        raise InvalidTypeError(msg, type=kind, missing=missing, operation=operation)


def _of_numpy(x: Any) -> int:
    import numpy as np

    masked: Any = np.ma
    return int(masked.count_masked(x)) if masked.is_masked(x) else 0


def _of_polars(x: Any) -> int:
    if hasattr(x, "get_columns"):
        return sum(map(_of_polars, x.get_columns()))
    if not hasattr(x, "null_count"):
        return 0
    while getattr(x.dtype, "inner", None) is not None:  # rows of a fixed length
        missing: int = x.null_count()
        if missing:
            return missing
        x = x.explode()
    return int(x.null_count())


def _of_pyarrow(x: Any) -> int:
    if hasattr(x, "columns"):
        return sum(map(_of_pyarrow, x.columns))
    return int(getattr(x, "null_count", 0))


def _of_pandas(x: Any) -> int:
    if getattr(x, "ndim", 1) == 2 and hasattr(x, "iloc"):
        return sum(_of_pandas(x.iloc[:, column]) for column in range(x.shape[1]))
    missing_value = getattr(getattr(x, "dtype", None), "na_value", None)
    # Of the other dtypes NaN is what is missing, and what NumPy holds too.
    return int(x.isna().sum()) if type(missing_value).__name__ == "NAType" else 0


_COUNTS: dict[str, Callable[[Any], int]] = {
    "numpy": _of_numpy,
    "polars": _of_polars,
    "pyarrow": _of_pyarrow,
    "pandas": _of_pandas,
}
