"""Values of the host as arguments of a program: their type decides what is converted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from devrt.arrays.put import as_host_array

__all__ = ["as_argument"]

_RANKS: dict[type, int] = {bool: 0, int: 1, float: 2, complex: 3}
_DTYPES = {"bool": 0, "int": 1, "uint": 1, "float": 2, "bfloat": 2, "complex": 3}


def as_argument(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    """Return a value as an array for a parameter; None if the dtype does not take it.

    Python's numbers, lists and tuples of them have no dtype of their own, and are converted to one
    of their kind or of a wider one, in the order bool, int, float, complex: floating point numbers
    are rounded, as literals are, and integers must be in range. All else is read as it is, and not
    converted, NumPy's scalars among it: what is taken today must not depend on a value.

    Raises
    ------
    InvalidTypeError
        If no array can be made of the value.
    """
    ranks = set(_ranks(value)) if type(value) in _RANKS or type(value) in (list, tuple) else {None}
    found = as_host_array(value)
    if None in ranks or found.dtype == dtype:
        return found
    wanted = next((rank for name, rank in _DTYPES.items() if dtype.name.startswith(name)), -1)
    given = max((rank for rank in ranks if rank is not None), default=0)
    return _converted(found, dtype, given) if given <= wanted else None


def _ranks(value: Any) -> Iterator[int | None]:
    """Yield what each number in a value is; None for what is none of Python's."""
    if type(value) in (list, tuple):
        for each in value:
            yield from _ranks(each)
    else:
        yield _RANKS.get(type(value))


def _converted(
    found: np.ndarray[Any, Any], dtype: np.dtype[Any], given: int
) -> np.ndarray[Any, Any] | None:
    is_integer = dtype.name.startswith(("int", "uint"))
    if is_integer and given and found.dtype.kind not in "iu" and found.size:
        return None  # no integer of NumPy's holds all of them
    try:
        if found.dtype.kind == "O":  # integers beyond 64 bits, for floating point numbers
            found = found.astype(np.float64)
    except OverflowError:
        return None
    with np.errstate(all="ignore"):
        made = found.astype(dtype)
        if is_integer and given:
            is_same = (made.astype(found.dtype) == found) & ((made < 0) == (found < 0))
        else:
            is_same = np.isfinite(made) == np.isfinite(found)
    return made if np.all(is_same) else None
