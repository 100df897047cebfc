"""Exponentials, logarithms and roots of elements, by NumPy's names."""

from __future__ import annotations

import math
from typing import Any

from devrt.numpy.bits import isfinite, isinf
from devrt.numpy.operands import fractions, full_like, of_kinds
from devrt.programs.eager import operation
from devrt.tracing import binary, compare, emit_one, kind_of, parts, select, unary

__all__ = [
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "i0",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "sqrt",
]


@operation
def exp(x: Any, /) -> Any:
    """Return e to the power of each element."""
    (x,) = fractions(x)
    power = unary("exponential", x)
    return _unlimited(x, power, 0.0) if kind_of(x.dtype) == "c" else power


def _unlimited(x: Any, power: Any, least: float) -> Any:
    """Return powers, with those of infinities in no direction as the array API standard has them.

    XLA gives NaN for both parts there.
    """
    real, imaginary = parts(x)
    is_wild = unary("not", isfinite(imaginary))
    is_low = binary("and", is_wild, compare("EQ", real, float("-inf")))
    is_high = binary("and", is_wild, compare("EQ", real, float("inf")))
    size, phase = parts(power)
    size = select(is_low, least, select(is_high, float("inf"), size))
    return emit_one("stablehlo.complex", (size, select(is_low, 0.0, phase)), x.aval)


@operation
def exp2(x: Any, /) -> Any:
    """Return 2 to the power of each element."""
    (x,) = fractions(x)
    return binary("power", full_like(x, 2), x)


@operation
def expm1(x: Any, /) -> Any:
    """Return ``exp(x) - 1``, exact near 0 too."""
    (x,) = fractions(x)
    power = unary("exponential_minus_one", x)
    return _unlimited(x, power, -1.0) if kind_of(x.dtype) == "c" else power


@operation
def log(x: Any, /) -> Any:
    """Return the natural logarithm."""
    return _logarithm("log", *fractions(x))


def _logarithm(name: str, x: Any) -> Any:
    """Return a natural logarithm; of complex infinities infinite, where XLA gives NaN for some."""
    power = unary(name, x)
    if kind_of(x.dtype) != "c":
        return power
    size, phase = parts(power)
    return emit_one("stablehlo.complex", (select(isinf(x), float("inf"), size), phase), x.aval)


@operation
def log1p(x: Any, /) -> Any:
    """Return ``log(1 + x)``, exact near 0 too."""
    return _logarithm("log_plus_one", *fractions(x))


@operation
def log2(x: Any, /) -> Any:
    """Return the logarithm to base 2."""
    return _log_to(2, x)


@operation
def log10(x: Any, /) -> Any:
    """Return the logarithm to base 10."""
    return _log_to(10, x)


def _log_to(base: int, x: Any) -> Any:
    (x,) = fractions(x)
    power = _logarithm("log", x)
    if kind_of(x.dtype) != "c":
        return binary("divide", power, full_like(x, math.log(base)))
    scaled = [binary("divide", part, full_like(part, math.log(base))) for part in parts(power)]
    return emit_one("stablehlo.complex", scaled, x.aval)


@operation
def sqrt(x: Any, /) -> Any:
    """Return the square root; NaN below 0."""
    return unary("sqrt", *fractions(x))


@operation
def cbrt(x: Any, /) -> Any:
    """Return the cube root."""
    return unary("cbrt", *fractions(*of_kinds("cbrt", "biuf", x)))


@operation
def logaddexp(x1: Any, x2: Any, /) -> Any:
    """Return ``log(exp(x1) + exp(x2))`` without overflow."""
    return _log_of_sum(1.0, x1, x2)


@operation
def logaddexp2(x1: Any, x2: Any, /) -> Any:
    """Return ``log2(2**x1 + 2**x2)`` without overflow."""
    return _log_of_sum(math.log(2), x1, x2)


def _log_of_sum(log_base: float, x1: Any, x2: Any) -> Any:
    x1, x2 = fractions(x1, x2)
    if kind_of(x1.dtype) == "c":
        total = binary("add", exp(binary("multiply", x1, log_base)), exp(x2 * log_base))
        return binary("divide", log(total), log_base)
    larger, distance = binary("maximum", x1, x2), binary("subtract", x1, x2)
    scaled = binary("multiply", unary("negate", unary("abs", distance)), log_base)
    rest = binary("divide", unary("log_plus_one", unary("exponential", scaled)), log_base)
    # Of two equal infinities the distance is NaN, and the sum either.
    is_known = compare("EQ", distance, distance)
    return select(is_known, binary("add", larger, rest), binary("add", x1, x2))


# Coefficients of Chebyshev series for exp(-|x|) I0(x), up to 8 and above (Cephes).
_BELOW_8 = (
    *(-4.41534164647933937950e-18, 3.33079451882223809783e-17, -2.43127984654795469359e-16),
    *(1.71539128555513303061e-15, -1.16853328779934516808e-14, 7.67618549860493561688e-14),
    *(-4.85644678311192946090e-13, 2.95505266312963983461e-12, -1.72682629144155570723e-11),
    *(9.67580903537323691224e-11, -5.18979560163526290666e-10, 2.65982372468238665035e-9),
    *(-1.30002500998624804212e-8, 6.04699502254191894932e-8, -2.67079385394061173391e-7),
    *(1.11738753912010371815e-6, -4.41673835845875056359e-6, 1.64484480707288970893e-5),
    *(-5.75419501008210370398e-5, 1.88502885095841655729e-4, -5.76375574538582365885e-4),
    *(1.63947561694133579842e-3, -4.32430999505057594430e-3, 1.05464603945949983183e-2),
    *(-2.37374148058994688156e-2, 4.93052842396707084878e-2, -9.49010970480476444210e-2),
    *(1.71620901522208775349e-1, -3.04682672343198398683e-1, 6.76795274409476084995e-1),
)
_ABOVE_8 = (
    *(-7.23318048787475395456e-18, -4.83050448594418207126e-18, 4.46562142029675999901e-17),
    *(3.46122286769746109310e-17, -2.82762398051658348494e-16, -3.42548561967721913462e-16),
    *(1.77256013305652638360e-15, 3.81168066935262242075e-15, -9.55484669882830764870e-15),
    *(-4.15056934728722208663e-14, 1.54008621752140982691e-14, 3.85277838274214270114e-13),
    *(7.18012445138366623367e-13, -1.79417853150680611778e-12, -1.32158118404477131188e-11),
    *(-3.14991652796324136454e-11, 1.18891471078464383424e-11, 4.94060238822496958910e-10),
    *(3.39623202570838634515e-9, 2.26666899049817806459e-8, 2.04891858946906374183e-7),
    *(2.89137052083475648297e-6, 6.88975834691682398426e-5, 3.36911647825569408990e-3),
    *(8.04490411014108831608e-1,),
)


@operation
def i0(x: Any, /) -> Any:
    """Return the modified Bessel function of the first kind, of order 0."""
    (x,) = fractions(*of_kinds("i0", "biuf", x))
    size = unary("abs", x)
    below = _chebyshev(binary("subtract", binary("divide", size, 2), 2), _BELOW_8)
    safe = binary("maximum", size, 8)
    above = _chebyshev(binary("subtract", binary("divide", 32, safe), 2), _ABOVE_8)
    above = binary("divide", above, unary("sqrt", safe))
    series = select(compare("LE", size, 8), below, above)
    return binary("multiply", unary("exponential", size), series)


def _chebyshev(x: Any, coefficients: tuple[float, ...]) -> Any:
    previous: Any = full_like(x, 0)
    before = previous
    current: Any = full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        before, previous = previous, current
        product = binary("subtract", binary("multiply", x, previous), before)
        current = binary("add", product, coefficient)
    return binary("multiply", binary("subtract", current, before), 0.5)
