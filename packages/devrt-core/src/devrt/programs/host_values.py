"""Values of the host as arguments of a program: what keeps its value in the dtype is converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.arrays.put import as_host_array

__all__ = ["as_argument"]

_FLOATS = ("bfloat", "float", "complex")


def as_argument(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """Return a value as an array for a parameter; None if the dtype cannot hold it.

    Python's numbers, lists and tuples of them, and NumPy's scalars are converted to the dtype
    where they keep their value; Python's floating point numbers are rounded, as literals are. All
    else is read as it is, and not converted.

    Raises
    ------
    InvalidTypeError
        If no array can be made of the value.
    """
    is_scalar = isinstance(value, np.generic)
    if not is_scalar and type(value) not in (bool, int, float, complex, list, tuple):
        return as_host_array(value)
    found = as_host_array(value)
    if found.dtype == dtype:
        return found
    if found.dtype.kind not in "biufc" and not found.dtype.name.startswith(_FLOATS):
        return None
    return _converted(found, dtype, is_literal=not is_scalar)


def _converted(
    found: np.ndarray[Any, Any], dtype: np.dtype[Any], *, is_literal: bool
) -> np.ndarray[Any, Any] | None:
    if found.dtype.kind == "c" and not dtype.name.startswith("complex"):
        if found.imag.any():
            return None
        found = found.real
    with np.errstate(all="ignore"):
        made = found.astype(dtype)
        is_rounded = is_literal and found.dtype.kind in "fc" and dtype.name.startswith(_FLOATS)
        if is_rounded:
            is_same = np.isfinite(made) == np.isfinite(found)
        else:
            back = made.astype(found.dtype)
            is_same = (back == found) | ((back != back) & (found != found))
            if found.dtype.kind in "iu":  # between signed and unsigned the bits come back
                is_same &= (made < 0) == (found < 0)
    return made if np.all(is_same) else None
