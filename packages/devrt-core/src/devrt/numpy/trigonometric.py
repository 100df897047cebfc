"""Functions of angles, hyperbolic functions and their inverses, by NumPy's names."""

from __future__ import annotations

import math
from typing import Any

from devrt.numpy.bits import isinf
from devrt.numpy.operands import fractions, full_like, of_kinds
from devrt.programs.eager import operation
from devrt.tracing import binary, compare, select, unary

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "hypot",
    "rad2deg",
    "radians",
    "sin",
    "sinc",
    "sinh",
    "tan",
    "tanh",
]


@operation
def sin(x: Any, /) -> Any:
    """Return the sine."""
    return unary("sine", *fractions(x))


@operation
def cos(x: Any, /) -> Any:
    """Return the cosine."""
    return unary("cosine", *fractions(x))


@operation
def tan(x: Any, /) -> Any:
    """Return the tangent."""
    return unary("tan", *fractions(x))


@operation
def asin(x: Any, /) -> Any:
    """Return the angle whose sine ``x`` is."""
    return unary("chlo.asin", *fractions(x))


@operation
def acos(x: Any, /) -> Any:
    """Return the angle whose cosine ``x`` is."""
    return unary("chlo.acos", *fractions(x))


@operation
def atan(x: Any, /) -> Any:
    """Return the angle whose tangent ``x`` is."""
    return unary("chlo.atan", *fractions(x))


@operation
def atan2(x1: Any, x2: Any, /) -> Any:
    """Return the angle of the point ``(x2, x1)``."""
    return binary("atan2", *fractions(*of_kinds("atan2", "biuf", x1, x2)))


@operation
def sinh(x: Any, /) -> Any:
    """Return the hyperbolic sine."""
    return unary("chlo.sinh", *fractions(x))


@operation
def cosh(x: Any, /) -> Any:
    """Return the hyperbolic cosine."""
    return unary("chlo.cosh", *fractions(x))


@operation
def tanh(x: Any, /) -> Any:
    """Return the hyperbolic tangent."""
    return unary("tanh", *fractions(x))


@operation
def asinh(x: Any, /) -> Any:
    """Return the number whose hyperbolic sine ``x`` is."""
    return unary("chlo.asinh", *fractions(x))


@operation
def acosh(x: Any, /) -> Any:
    """Return the number whose hyperbolic cosine ``x`` is."""
    return unary("chlo.acosh", *fractions(x))


@operation
def atanh(x: Any, /) -> Any:
    """Return the number whose hyperbolic tangent ``x`` is."""
    return unary("chlo.atanh", *fractions(x))


arccos, arccosh, arcsin, arcsinh = acos, acosh, asin, asinh
arctan, arctan2, arctanh = atan, atan2, atanh


@operation
def hypot(x1: Any, x2: Any, /) -> Any:
    """Return ``sqrt(x1**2 + x2**2)`` without overflow; infinite where either is."""
    x1, x2 = (unary("abs", each) for each in fractions(*of_kinds("hypot", "biuf", x1, x2)))
    larger, smaller = binary("maximum", x1, x2), binary("minimum", x1, x2)
    ratio = binary("divide", smaller, select(compare("EQ", larger, 0), 1, larger))
    root = unary("sqrt", binary("add", binary("multiply", ratio, ratio), 1))
    is_infinite = binary("or", isinf(x1), isinf(x2))
    return select(is_infinite, float("inf"), binary("multiply", larger, root))


@operation
def deg2rad(x: Any, /) -> Any:
    """Return degrees as radians."""
    return _scaled("deg2rad", x, math.pi / 180)


@operation
def rad2deg(x: Any, /) -> Any:
    """Return radians as degrees."""
    return _scaled("rad2deg", x, 180 / math.pi)


radians, degrees = deg2rad, rad2deg


def _scaled(name: str, x: Any, factor: float) -> Any:
    (x,) = fractions(*of_kinds(name, "biuf", x))
    return binary("multiply", x, full_like(x, factor))


@operation
def sinc(x: Any, /) -> Any:
    """Return ``sin(pi x) / (pi x)``, and 1 at 0."""
    (x,) = fractions(x)
    is_zero = compare("EQ", x, 0)
    angle = binary("multiply", select(is_zero, full_like(x, 1), x), full_like(x, math.pi))
    return select(is_zero, full_like(x, 1), binary("divide", unary("sine", angle), angle))
