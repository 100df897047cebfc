"""Functions of elements, one by one, by `jax.lax`'s names."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from devrt import tracing
from devrt.lax.checks import lax_operation, named_operation, one_dtype, refuse, require_kind, spread
from devrt.tracing import (
    as_value,
    binary,
    compare,
    complex_of,
    conjugate,
    constant,
    imaginary_part,
    kind_of,
    named,
    nary,
    real_part,
    unary,
)

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bessel_i1e",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "cbrt",
    "ceil",
    "clz",
    "complex",
    "conj",
    "cos",
    "cosh",
    "digamma",
    "div",
    "eq",
    "erf",
    "erf_inv",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "ge",
    "gt",
    "imag",
    "integer_pow",
    "is_finite",
    "le",
    "lgamma",
    "log",
    "log1p",
    "logistic",
    "lt",
    "max",
    "min",
    "mul",
    "ne",
    "neg",
    "nextafter",
    "polygamma",
    "population_count",
    "pow",
    "real",
    "reciprocal",
    "rem",
    "round",
    "rsqrt",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "sub",
    "tan",
    "tanh",
    "zeta",
]

Function = Callable[..., Any]


def _unary(name: str, op: str, kinds: str, text: str) -> Function:
    def compute(x: Any) -> Any:
        return unary(op, require_kind(name, x, kinds))

    return named_operation(compute, name, f"Return {text}, for each element.")


def _binary(name: str, op: str, kinds: str, text: str) -> Function:
    def compute(x: Any, y: Any) -> Any:
        x, y = one_dtype(name, x, y)
        require_kind(name, x, kinds)
        return nary(op, *spread(name, x, y))

    return named_operation(compute, name, f"Return {text}, for each pair of elements.")


def _comparison(name: str, direction: str, kinds: str, text: str) -> Function:
    def compute(x: Any, y: Any) -> Any:
        x, y = one_dtype(name, x, y)
        require_kind(name, x, kinds)
        return compare(direction, *spread(name, x, y))

    return named_operation(compute, name, f"Return whether {text}, for each pair of elements.")


abs = _unary("abs", "abs", "iuf", "the absolute value")
acos = _unary("acos", "chlo.acos", "fc", "the angle of a cosine")
acosh = _unary("acosh", "chlo.acosh", "fc", "the inverse of the hyperbolic cosine")
asin = _unary("asin", "chlo.asin", "fc", "the angle of a sine")
asinh = _unary("asinh", "chlo.asinh", "fc", "the inverse of the hyperbolic sine")
atan = _unary("atan", "chlo.atan", "fc", "the angle of a tangent")
atanh = _unary("atanh", "chlo.atanh", "fc", "the inverse of the hyperbolic tangent")
bessel_i1e = _unary("bessel_i1e", "chlo.bessel_i1e", "f", "Bessel's I1, scaled by e^-abs(x)")
bitwise_not = _unary("bitwise_not", "not", "biu", "the inverse of each bit")
cbrt = _unary("cbrt", "cbrt", "f", "the cube root")
ceil = _unary("ceil", "ceil", "f", "the least integer that is no less")
cos = _unary("cos", "cosine", "fc", "the cosine")
cosh = _unary("cosh", "chlo.cosh", "fc", "the hyperbolic cosine")
digamma = _unary("digamma", "chlo.digamma", "f", "the derivative of log gamma")
erf = _unary("erf", "chlo.erf", "f", "the error function")
erf_inv = _unary("erf_inv", "chlo.erf_inv", "f", "the inverse of the error function")
erfc = _unary("erfc", "chlo.erfc", "f", "one minus the error function")
exp = _unary("exp", "exponential", "fc", "e to its power")
expm1 = _unary("expm1", "exponential_minus_one", "fc", "e to its power, minus one")
floor = _unary("floor", "floor", "f", "the greatest integer that is no greater")
lgamma = _unary("lgamma", "chlo.lgamma", "f", "the logarithm of the gamma function's size")
log = _unary("log", "log", "fc", "the natural logarithm")
log1p = _unary("log1p", "log_plus_one", "fc", "the natural logarithm of one more")
logistic = _unary("logistic", "logistic", "fc", "1 / (1 + e^-x)")
neg = _unary("neg", "negate", "iufc", "the negative")
population_count = _unary("population_count", "popcnt", "iu", "how many bits are set")
rsqrt = _unary("rsqrt", "rsqrt", "fc", "one over the square root")
sign = _unary("sign", "sign", "iufc", "-1, 0 or 1; of complex numbers x / abs(x)")
sin = _unary("sin", "sine", "fc", "the sine")
sinh = _unary("sinh", "chlo.sinh", "fc", "the hyperbolic sine")
sqrt = _unary("sqrt", "sqrt", "fc", "the square root")
tan = _unary("tan", "tan", "fc", "the tangent")
tanh = _unary("tanh", "tanh", "fc", "the hyperbolic tangent")

add = _binary("add", "add", "iufc", "the sum")
atan2 = _binary("atan2", "atan2", "fc", "the angle of the point (y, x)")
bitwise_and = _binary("bitwise_and", "and", "biu", "the bits that both have")
bitwise_or = _binary("bitwise_or", "or", "biu", "the bits that either has")
bitwise_xor = _binary("bitwise_xor", "xor", "biu", "the bits that one of them has")
div = _binary("div", "divide", "iufc", "the quotient; of integers rounded towards zero")
max = _binary("max", "maximum", "biufc", "the greater one; NaN if one is NaN")
min = _binary("min", "minimum", "biufc", "the lesser one; NaN if one is NaN")
mul = _binary("mul", "multiply", "iufc", "the product")
nextafter = _binary("nextafter", "chlo.next_after", "f", "what follows x in the direction of y")
polygamma = _binary("polygamma", "chlo.polygamma", "f", "the m-th derivative of digamma at x")
rem = _binary("rem", "remainder", "iuf", "the remainder, with the sign of the dividend")
shift_left = _binary("shift_left", "shift_left", "iu", "x with its bits y higher")
shift_right_arithmetic = _binary(
    "shift_right_arithmetic",
    "shift_right_arithmetic",
    "iu",
    "x with its bits y lower, sign above",
)
shift_right_logical = _binary(
    "shift_right_logical", "shift_right_logical", "iu", "x with its bits y lower, zeros above"
)
sub = _binary("sub", "subtract", "iufc", "the difference")
zeta = _binary("zeta", "chlo.zeta", "f", "Hurwitz's zeta function")

eq = _comparison("eq", "EQ", "biufc", "both are equal")
ge = _comparison("ge", "GE", "biuf", "x is y or greater")
gt = _comparison("gt", "GT", "biuf", "x is greater than y")
le = _comparison("le", "LE", "biuf", "x is y or less")
lt = _comparison("lt", "LT", "biuf", "x is less than y")
ne = _comparison("ne", "NE", "biufc", "they differ")


@lax_operation()
def complex(x: Any, y: Any) -> Any:
    """Return complex numbers of real and imaginary parts: float32 or float64."""
    x, y = spread("complex", *one_dtype("complex", x, y))
    if x.aval.dtype.name not in ("float32", "float64"):
        refuse("complex", f"takes float32 or float64, not {x.aval}")
    return nary("complex", x, y, dtype=complex_of(x.aval.dtype))


@lax_operation()
def real(x: Any) -> Any:
    """Return the real parts of complex numbers."""
    return real_part(require_kind("real", x, "c"))


@lax_operation()
def imag(x: Any) -> Any:
    """Return the imaginary parts of complex numbers."""
    return imaginary_part(require_kind("imag", x, "c"))


@lax_operation()
def conj(x: Any) -> Any:
    """Return the complex conjugates; those of float32 and float64 are complex."""
    x = require_kind("conj", x, "fc")
    if x.aval.dtype.kind != "c":
        return complex(x, binary("multiply", x, constant(0, x.aval.dtype)))
    return conjugate(x)


@lax_operation()
def is_finite(x: Any) -> Any:
    """Return whether each float is neither infinite nor NaN."""
    return unary("is_finite", require_kind("is_finite", x, "f"), named("bool"))


@lax_operation(static=("rounding_method",))
def round(x: Any, rounding_method: int = 0) -> Any:
    """Return the nearest integer of each float; halves away from zero, or (1) to even ones."""
    suffix = "even" if int(rounding_method) == 1 else "afz"
    return unary(f"round_nearest_{suffix}", require_kind("round", x, "f"))


@lax_operation()
def clz(x: Any) -> Any:
    """Return how many zeros the highest bits are, for each element."""
    x = require_kind("clz", x, "iu")
    dtype = x.aval.dtype
    # XLA counts those of negative constants wrongly, and those of unsigned ones rightly.
    bits = named(f"uint{dtype.itemsize * 8}") if kind_of(dtype) == "i" else dtype
    plain = x if bits == dtype else unary("bitcast_convert", x, bits)
    return tracing.convert(unary("count_leading_zeros", plain), dtype, weak_type=x.aval.weak_type)


@lax_operation()
def exp2(x: Any) -> Any:
    """Return two to the power of each element."""
    x = require_kind("exp2", x, "fc")
    return unary("exponential", binary("multiply", x, constant(math.log(2), x.aval.dtype)))


@lax_operation()
def square(x: Any) -> Any:
    """Return the square of each element."""
    x = require_kind("square", x, "iufc")
    return binary("multiply", x, x)


@lax_operation()
def reciprocal(x: Any) -> Any:
    """Return one over each element."""
    return integer_pow(require_kind("reciprocal", x, "fc"), -1)


@lax_operation()
def pow(x: Any, y: Any) -> Any:
    """Return ``x`` to the power of ``y``: of its dtype, or integers."""
    x, y = require_kind("pow", x, "fc"), as_value(y)
    if require_kind("pow", y, "iufc").aval.dtype.kind in "iu":
        y = tracing.convert(y, x.aval.dtype, weak_type=x.aval.weak_type)
    return nary("power", *spread("pow", *one_dtype("pow", x, y)))


@lax_operation(static=("y",))
def integer_pow(x: Any, y: int) -> Any:
    """Return each element to the power of a Python integer, by repeated multiplication."""
    x = require_kind("integer_pow", x, "iufc")
    if y < 0 and x.aval.dtype.kind in "iu":
        refuse("integer_pow", f"integers have no power of {y}")
    result, factor, rest = None, x, -y if y < 0 else y
    while rest:
        if rest & 1:
            result = factor if result is None else binary("multiply", result, factor)
        rest >>= 1
        factor = binary("multiply", factor, factor) if rest else factor
    one = constant(1, x.aval.dtype, x.aval.shape, weak_type=x.aval.weak_type)
    result = one if result is None else result
    return binary("divide", one, result) if y < 0 else result
