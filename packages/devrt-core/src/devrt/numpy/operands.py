"""What functions of elements take: operands of the dtypes that each function is defined for."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt import dtypes, tracing
from devrt.errors import InvalidTypeError
from devrt.tracing import at_user_line, inexact, kind_of, named, promote, result_type

__all__ = [
    "BOOL",
    "bits_of",
    "counted",
    "dtype_of",
    "fractions",
    "full_like",
    "of_kinds",
]

BOOL = named("bool")

_KIND_NAMES = {"b": "bool", "i": "signed", "u": "unsigned", "f": "real floating", "c": "complex"}


def dtype_of(*operands: Any) -> np.dtype[Any]:
    """Return the dtype that operands have in common."""
    dtype: np.dtype[Any] = result_type(*operands)[0]
    return dtype


def counted(*operands: Any) -> list[Any]:
    """Return operands promoted, truth values as int32."""
    is_bool = dtype_of(*operands) == BOOL
    return promote(*operands, dtype=named("int32") if is_bool else None)


def bits_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the unsigned dtype of as many bits."""
    return named(f"uint{dtypes.from_numpy(dtype).bits}")


def fractions(*operands: Any) -> list[Any]:
    """Return operands as values of the dtype of fractions that they have in common."""
    dtype, is_weak = result_type(*operands)
    return promote(*operands, dtype=inexact(dtype), weak_type=is_weak)


def of_kinds(name: str, kinds: str, *operands: Any) -> list[Any]:
    """Return operands as values of their common dtype.

    Raises
    ------
    InvalidTypeError
        If that is of another kind than ``kinds``, some of ``biufc``.
    """
    dtype = dtype_of(*operands)
    if kind_of(dtype) not in kinds:
        given = ", ".join(str(dtype_of(each)) for each in operands)
        known = ", ".join(_KIND_NAMES[kind] for kind in kinds)
        msg = (
            f"{name} of {given}{at_user_line()}: it is defined for dtypes that are {known}. "
            "Convert with astype()."
        )
        raise InvalidTypeError(msg, operation=name, dtype=str(dtype))
    return promote(*operands)


def full_like(x: Any, value: Any) -> Any:
    """Return a constant of a value's shape and dtype."""
    return tracing.constant(value, x.aval.dtype, x.aval.shape)
