"""Comparisons of elements, and what follows from truth values, by NumPy's names."""

from __future__ import annotations

from typing import Any

from devrt.numpy.operands import BOOL
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    binary,
    compare,
    convert,
    kind_of,
    parts,
    promote,
    select,
    unary,
)

__all__ = [
    "compare_complex",
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "truth",
]


@operation
def equal(x1: Any, x2: Any, /) -> Any:
    """Return where ``x1 == x2``."""
    return compare("EQ", x1, x2)


@operation
def not_equal(x1: Any, x2: Any, /) -> Any:
    """Return where ``x1 != x2``."""
    return compare("NE", x1, x2)


@operation
def less(x1: Any, x2: Any, /) -> Any:
    """Return where ``x1 < x2``; complex numbers by their real parts first."""
    return _ordered("LT", x1, x2)


@operation
def less_equal(x1: Any, x2: Any, /) -> Any:
    """Return where ``x1 <= x2``; complex numbers by their real parts first."""
    return _ordered("LE", x1, x2)


@operation
def greater(x1: Any, x2: Any, /) -> Any:
    """Return where ``x1 > x2``; complex numbers by their real parts first."""
    return _ordered("GT", x1, x2)


@operation
def greater_equal(x1: Any, x2: Any, /) -> Any:
    """Return where ``x1 >= x2``; complex numbers by their real parts first."""
    return _ordered("GE", x1, x2)


def _ordered(direction: str, x1: Any, x2: Any) -> Any:
    x1, x2 = promote(x1, x2)
    is_complex = kind_of(x1.dtype) == "c"
    return (compare_complex if is_complex else compare)(direction, x1, x2)


def compare_complex(direction: str, x1: Any, x2: Any) -> Any:
    """Return where complex values are LT, LE, GT or GE others, by their real parts first."""
    (real1, imag1), (real2, imag2) = parts(x1), parts(x2)
    is_equal = compare("EQ", real1, real2)
    by_real = compare(direction, real1, real2)
    return select(is_equal, compare(direction, imag1, imag2), by_real)


# -- truth values -----------------------------------------------------------------------------


def truth(x: Any) -> Any:
    """Return where elements are not 0."""
    x = as_value(x)
    return x if x.dtype == BOOL else convert(compare("NE", x, 0), BOOL)


@operation
def logical_and(x1: Any, x2: Any, /) -> Any:
    """Return where both are true."""
    return binary("and", truth(x1), truth(x2))


@operation
def logical_or(x1: Any, x2: Any, /) -> Any:
    """Return where either is true."""
    return binary("or", truth(x1), truth(x2))


@operation
def logical_xor(x1: Any, x2: Any, /) -> Any:
    """Return where one of the two is true."""
    return binary("xor", truth(x1), truth(x2))


@operation
def logical_not(x: Any, /) -> Any:
    """Return where elements are false."""
    return unary("not", truth(x))
