"""What dtypes hold, NumPy's and those of ml_dtypes alike, and the dtypes of complex parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.dtypes import kind_of

__all__ = ["complex_of", "extreme", "integer_limits", "kind_of", "real_of"]


def real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the parts of a complex one; any other as it is."""
    return np.dtype(f"float{dtype.itemsize * 4}") if dtype.kind == "c" else dtype


def complex_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex dtype with parts of a dtype: complex64 of all but those of 64 bits."""
    if dtype.kind == "c":
        return dtype
    return np.dtype("complex128" if dtype.itemsize == 8 else "complex64")


def integer_limits(dtype: np.dtype[Any]) -> Any:
    """Return the limits of a dtype of integers: ``min`` and ``max``."""
    if dtype.kind in "iu":
        return np.iinfo(dtype)
    import ml_dtypes  # start-up counts, and few programs have such integers

    return ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]


def extreme(dtype: np.dtype[Any], *, greatest: bool) -> Any:
    """Return the greatest or least value of a real dtype: infinite where it can be."""
    kind = kind_of(dtype)
    if kind == "b":
        return greatest
    if kind in "iu":
        limits = integer_limits(dtype)
        return int(limits.max if greatest else limits.min)
    infinite = np.array(np.inf if greatest else -np.inf).astype(dtype)
    if np.isinf(infinite):
        return infinite
    import ml_dtypes

    finite: Any = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return finite.max if greatest else finite.min
