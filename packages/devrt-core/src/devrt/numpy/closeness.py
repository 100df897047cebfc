"""Whether elements are close, and arrays equal, by NumPy's names."""

from __future__ import annotations

from typing import Any

from devrt.errors import InvalidArgumentError
from devrt.numpy.arithmetic import abs
from devrt.numpy.bits import isinf, isnan
from devrt.numpy.operands import BOOL, fractions
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    binary,
    broadcast_shapes,
    compare,
    constant,
    kind_of,
    promote,
    reduce,
    unary,
)

__all__ = ["allclose", "array_equal", "array_equiv", "isclose"]


@operation(static=("equal_nan",))
def isclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Return where ``abs(a - b) <= atol + rtol * abs(b)``, or both are the same infinity."""
    a, b = promote(a, b)
    if kind_of(a.dtype) in "biu":
        a, b = fractions(a, b)
    size, distance = (abs(each) for each in (b, binary("subtract", a, b)))
    bound = binary("add", atol, binary("multiply", rtol, size))
    is_near = binary("and", compare("LE", distance, bound), unary("not", isinf(b)))
    close = binary("or", is_near, compare("EQ", a, b))
    return binary("or", close, binary("and", isnan(a), isnan(b))) if equal_nan else close


@operation(static=("equal_nan",))
def allclose(a: Any, b: Any, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False) -> Any:
    """Return whether `isclose` holds of all elements."""
    return _all(isclose(a, b, rtol, atol, equal_nan=equal_nan))


def _all(x: Any) -> Any:
    return reduce("and", x, True, range(x.ndim))


@operation(static=("equal_nan",))
def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    """Return whether two arrays have the same shape and elements."""
    a1, a2 = as_value(a1), as_value(a2)
    if a1.shape != a2.shape:
        return constant(False, BOOL)
    same = compare("EQ", a1, a2)
    if equal_nan:
        same = binary("or", same, binary("and", isnan(a1), isnan(a2)))
    return _all(same)


@operation
def array_equiv(a1: Any, a2: Any) -> Any:
    """Return whether two arrays have the same elements once they are broadcast."""
    a1, a2 = as_value(a1), as_value(a2)
    try:
        broadcast_shapes(a1.shape, a2.shape)
    except InvalidArgumentError:
        return constant(False, BOOL)
    return _all(compare("EQ", a1, a2))
