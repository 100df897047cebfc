"""Host arrays with missing elements: refused, as NumPy reads most of them as NaN in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devrt.errors import InvalidTypeError

__all__ = ["refuse_nulls"]


def refuse_nulls(x: object, operation: str = "device_put") -> None:
    """Raise `InvalidTypeError` unless every element of a host value is there.

    Masked arrays of NumPy, and arrays, columns and tables of polars, pyarrow and pandas (nullable
    dtypes) tell which are missing, also within lists and tuples. NaN is a value. No library is
    imported. A client asks this of what it reads itself; the message names ``operation``.
    """
    _refuse(x, operation, _DEEPEST)


def _refuse(x: Any, operation: str, depth: int) -> None:
    if isinstance(x, list | tuple):
        if depth and not _NUMBERS.issuperset(map(type, x)):
            for item in x:
                _refuse(item, operation, depth - 1)
        return
    if type(x).__module__ == "numpy":  # masked arrays are of numpy.ma
        return
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


_NUMBERS = {bool, int, float, complex}
_DEEPEST = 64
"""Sequences within sequences that NumPy looks at."""


def _of_numpy(x: Any) -> int:
    import numpy as np

    masked: Any = np.ma
    return int(masked.count_masked(x)) if masked.is_masked(x) else 0


def _of_polars(x: Any) -> int:
    if hasattr(x, "get_columns"):
        return sum(map(_of_polars, x.get_columns()))
    dtype = getattr(x, "dtype", None)
    if dtype is None:  # no elements yet: an expression, a query
        return 0
    missing = int(x.null_count())
    if missing:
        return missing
    kind = type(dtype).__name__
    if kind == "Struct":
        return sum(_of_polars(x.struct.field(name)) for name in x.struct.fields)
    return _of_polars(x.explode()) if kind == "Array" else 0  # rows of a fixed length


def _of_pyarrow(x: Any) -> int:
    if hasattr(x, "columns"):
        return sum(map(_of_pyarrow, x.columns))
    return int(getattr(x, "null_count", 0))


def _of_pandas(x: Any) -> int:
    if hasattr(x, "dtypes") and hasattr(x, "columns"):
        # Once for all columns: taking one of a table is slow.
        nullable = [at for at, dtype in enumerate(x.dtypes.array) if _is_nullable(dtype)]
        return int(x.iloc[:, nullable].isna().to_numpy().sum()) if nullable else 0
    return int(x.isna().sum()) if _is_nullable(getattr(x, "dtype", None)) else 0


def _is_nullable(dtype: Any) -> bool:
    # Of the other dtypes NaN is what is missing, and what NumPy holds too.
    return type(getattr(dtype, "na_value", None)).__name__ == "NAType"


_COUNTS: dict[str, Callable[[Any], int]] = {
    "numpy": _of_numpy,
    "polars": _of_polars,
    "pyarrow": _of_pyarrow,
    "pandas": _of_pandas,
}
