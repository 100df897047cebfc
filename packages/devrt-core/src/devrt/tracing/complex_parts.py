"""Complex values and their parts."""

from __future__ import annotations

from typing import Any

from devrt.tracing.aval import shaped
from devrt.tracing.elementwise import nary, unary
from devrt.tracing.kinds import complex_of, real_of
from devrt.tracing.trace import emit_one

__all__ = [
    "complex_from",
    "conjugate",
    "imaginary_part",
    "parts",
    "real_part",
    "squared_size",
]


def real_part(x: Any) -> Any:
    """Return the real part of a complex value."""
    return unary("real", x, real_of(x.aval.dtype))


def imaginary_part(x: Any) -> Any:
    """Return the imaginary part of a complex value."""
    return unary("imag", x, real_of(x.aval.dtype))


def parts(x: Any) -> tuple[Any, Any]:
    """Return the real and the imaginary part of a complex value."""
    return real_part(x), imaginary_part(x)


def complex_from(real: Any, imaginary: Any) -> Any:
    """Return the complex value of two parts of one shape and dtype."""
    result = shaped(real.aval.shape, complex_of(real.aval.dtype))
    return emit_one("stablehlo.complex", (real, imaginary), result)


def conjugate(x: Any) -> Any:
    """Return the conjugate of complex elements; others as they are."""
    if x.aval.dtype.kind != "c":
        return x
    real, imaginary = parts(x)
    return emit_one("stablehlo.complex", (real, unary("negate", imaginary)), x.aval)


def squared_size(x: Any) -> Any:
    """Return the squared absolute value of elements: real."""
    if x.aval.dtype.kind != "c":
        return nary("multiply", x, x)
    return nary("add", *(nary("multiply", part, part) for part in parts(x)))
