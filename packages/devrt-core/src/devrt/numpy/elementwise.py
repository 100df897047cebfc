"""Functions of elements, one by one, by NumPy's names."""

from __future__ import annotations

from typing import Any

from devrt.programs.eager import operation
from devrt.tracing import binary, compare, inexact, named, promote, result_type, unary

__all__ = ["add", "divide", "exp", "less", "multiply", "negative", "subtract", "true_divide"]


@operation
def add(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 + x2``; of truth values, whether either is true."""
    if result_type(x1, x2)[0] == named("bool"):
        return binary("or", x1, x2)
    return binary("add", x1, x2)


@operation
def subtract(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 - x2``."""
    return binary("subtract", x1, x2)


@operation
def multiply(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 * x2``; of truth values, whether both are true."""
    if result_type(x1, x2)[0] == named("bool"):
        return binary("and", x1, x2)
    return binary("multiply", x1, x2)


@operation
def true_divide(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 / x2``, of a dtype of fractions."""
    dtype = inexact(result_type(x1, x2)[0])
    return binary("divide", *promote(x1, x2, dtype=dtype))


divide = true_divide


@operation
def negative(x: Any, /) -> Any:
    """Return ``-x``."""
    return unary("negate", x)


@operation
def exp(x: Any, /) -> Any:
    """Return e to the power of each element."""
    return unary("exponential", *promote(x, dtype=inexact(result_type(x)[0])))


@operation
def less(x1: Any, x2: Any, /) -> Any:
    """Return where ``x1 < x2``."""
    return compare("LT", x1, x2)
