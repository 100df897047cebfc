"""Sums, products, powers and other arithmetic of elements, by NumPy's names."""

from __future__ import annotations

from typing import Any

from devrt.errors import InvalidArgumentError
from devrt.numpy.bits import isinf
from devrt.numpy.comparisons import compare_complex
from devrt.numpy.operands import BOOL, counted, dtype_of, fractions, full_like, of_kinds
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    at_user_line,
    binary,
    broadcast,
    compare,
    convert,
    emit_one,
    inexact,
    kind_of,
    promote,
    real_of,
    reduce,
    result_type,
    select,
    shaped,
    trace_flat,
    unary,
    while_loop,
)

__all__ = [
    "abs",
    "absolute",
    "add",
    "divide",
    "fabs",
    "float_power",
    "fmax",
    "fmin",
    "gcd",
    "heaviside",
    "lcm",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "positive",
    "pow",
    "power",
    "reciprocal",
    "sign",
    "square",
    "subtract",
    "true_divide",
]

_NUMBERS = "iufc"
_ALL = "biufc"


@operation
def add(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 + x2``; of truth values, whether either is true."""
    return binary("or" if dtype_of(x1, x2) == BOOL else "add", x1, x2)


@operation
def subtract(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 - x2``."""
    return binary("subtract", *of_kinds("subtract", _NUMBERS, x1, x2))


@operation
def multiply(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 * x2``; of truth values, whether both are true."""
    return binary("and" if dtype_of(x1, x2) == BOOL else "multiply", x1, x2)


@operation
def true_divide(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 / x2``, of a dtype of fractions."""
    return binary("divide", *fractions(x1, x2))


divide = true_divide


@operation
def negative(x: Any, /) -> Any:
    """Return ``-x``."""
    return unary("negate", *of_kinds("negative", _NUMBERS, x))


@operation
def positive(x: Any, /) -> Any:
    """Return ``x``."""
    return as_value(x)


@operation
def abs(x: Any, /) -> Any:
    """Return the absolute value; of complex numbers the modulus, which is real."""
    (x,) = promote(x)
    kind = kind_of(x.dtype)
    if kind in "bu":
        return x
    if kind == "c":
        size = emit_one("stablehlo.abs", (x,), shaped(x.shape, real_of(x.dtype)))
        return select(isinf(x), float("inf"), size)
    return unary("abs", x)


absolute = abs


@operation
def fabs(x: Any, /) -> Any:
    """Return the absolute value, of a dtype of fractions."""
    dtype, is_weak = result_type(*of_kinds("fabs", "biuf", x))
    return unary("abs", *promote(x, dtype=inexact(dtype), weak_type=is_weak))


@operation
def sign(x: Any, /) -> Any:
    """Return -1, 0 or 1 as an element is below, at or above 0; of complex ``x / abs(x)``."""
    (x,) = of_kinds("sign", _NUMBERS, x)
    if kind_of(x.dtype) == "u":
        return convert(compare("NE", x, 0), x.dtype, weak_type=x.weak_type)
    signs = unary("sign", x)
    # Not -0.0 for it, as the array API standard has it.
    return select(compare("EQ", x, 0), full_like(x, 0), signs) if kind_of(x.dtype) == "f" else signs


@operation
def square(x: Any, /) -> Any:
    """Return ``x * x``."""
    (x,) = counted(x)
    return binary("multiply", x, x)


@operation
def reciprocal(x: Any, /) -> Any:
    """Return ``1 / x``, of a dtype of fractions."""
    return binary("divide", 1, *fractions(x))


# -- powers -----------------------------------------------------------------------------------

_UNROLLED = 8
"""Up to which exponent of Python's a power is written as products."""


def power(x1: Any, x2: Any, /) -> Any:
    """Return ``x1`` to the power of ``x2``.

    Integers stay integers. A power of theirs below 0 is an error where Python gives the exponent,
    and undefined where an array does.
    """
    if type(x2) is int:
        if x2 < 0 and kind_of(dtype_of(x1)) in "biu":
            msg = (
                f"power of {dtype_of(x1)} and {x2}{at_user_line()}: integers have no powers below "
                "0. Convert with astype() to a dtype of fractions."
            )
            raise InvalidArgumentError(msg, operation="power")
        if -_UNROLLED <= x2 <= _UNROLLED and hasattr(x1, "dtype"):
            return _integer_power(x1, x2)
    return _power(x1, x2)


pow = power


@operation(static=("exponent",))
def _integer_power(x: Any, exponent: int) -> Any:
    (x,) = counted(x)
    if exponent == 0:
        return full_like(x, 1)
    result, squared, left = None, x, exponent if exponent > 0 else -exponent
    while left:
        if left & 1:
            result = squared if result is None else binary("multiply", result, squared)
        left >>= 1
        if left:
            squared = binary("multiply", squared, squared)
    return result if exponent > 0 else binary("divide", full_like(x, 1), result)


@operation
def _power(x1: Any, x2: Any) -> Any:
    x1, x2 = counted(x1, x2)
    return binary("power", x1, x2)


@operation
def float_power(x1: Any, x2: Any, /) -> Any:
    """Return ``x1`` to the power of ``x2``, of a dtype of fractions."""
    return binary("power", *fractions(x1, x2))


# -- the larger and the smaller ---------------------------------------------------------------


@operation
def maximum(x1: Any, x2: Any, /) -> Any:
    """Return the larger of two elements; NaN if either is. Complex ones by real part first."""
    return _extreme("maximum", "GT", x1, x2)


@operation
def minimum(x1: Any, x2: Any, /) -> Any:
    """Return the smaller of two elements; NaN if either is. Complex ones by real part first."""
    return _extreme("minimum", "LT", x1, x2)


def _extreme(name: str, direction: str, x1: Any, x2: Any) -> Any:
    x1, x2 = promote(x1, x2)
    if kind_of(x1.dtype) != "c":
        return binary(name, x1, x2)
    is_first = binary("or", compare("NE", x1, x1), compare_complex(direction, x1, x2))
    return select(is_first, x1, x2)


@operation
def fmax(x1: Any, x2: Any, /) -> Any:
    """Return the larger of two elements; where one is NaN, the other."""
    return _extreme_number(maximum, x1, x2)


@operation
def fmin(x1: Any, x2: Any, /) -> Any:
    """Return the smaller of two elements; where one is NaN, the other."""
    return _extreme_number(minimum, x1, x2)


def _extreme_number(extreme: Any, x1: Any, x2: Any) -> Any:
    x1, x2 = promote(x1, x2)
    if kind_of(x1.dtype) in "biu":
        return extreme(x1, x2)
    larger = select(compare("NE", x2, x2), x1, extreme(x1, x2))
    return select(compare("NE", x1, x1), x2, larger)


@operation
def heaviside(x1: Any, x2: Any, /) -> Any:
    """Return 0 where ``x1`` is below 0, 1 above, ``x2`` at 0."""
    x1, x2 = fractions(x1, x2)
    step = select(compare("LT", x1, 0), full_like(x1, 0), full_like(x1, 1))
    return select(compare("EQ", x1, 0), x2, select(compare("NE", x1, x1), x1, step))


# -- divisors ---------------------------------------------------------------------------------


@operation
def gcd(x1: Any, x2: Any, /) -> Any:
    """Return the greatest common divisor of two integers."""
    x1, x2 = (abs(each) for each in of_kinds("gcd", "iu", x1, x2))
    return _gcd(x1, x2)


@operation
def lcm(x1: Any, x2: Any, /) -> Any:
    """Return the least common multiple of two integers."""
    x1, x2 = (abs(each) for each in of_kinds("lcm", "iu", x1, x2))
    divisor = _gcd(x1, x2)
    quotient = binary("divide", x1, binary("maximum", divisor, 1))
    return select(
        compare("EQ", divisor, 0), full_like(divisor, 0), binary("multiply", quotient, x2)
    )


def _gcd(x1: Any, x2: Any) -> Any:
    x1, x2 = broadcast(x1, x2, operation="gcd")
    avals = [x1.aval, x2.aval]

    def goes_on(larger: Any, smaller: Any) -> Any:
        left = compare("NE", smaller, 0)
        return (reduce("or", left, False, range(left.ndim)),)

    def divided(larger: Any, smaller: Any) -> Any:
        rest = binary("remainder", larger, binary("maximum", smaller, 1))
        is_done = compare("EQ", smaller, 0)
        return select(is_done, larger, smaller), select(is_done, smaller, rest)

    return while_loop(trace_flat(goes_on, avals), trace_flat(divided, avals), (x1, x2))[0]
