"""Parts and angles of complex numbers, by NumPy's names."""

from __future__ import annotations

import math
from typing import Any

from devrt.numpy.operands import BOOL, dtype_of, fractions, full_like
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    binary,
    compare,
    constant,
    imaginary_part,
    kind_of,
    parts,
    real_part,
)
from devrt.tracing import conjugate as conjugated

__all__ = [
    "angle",
    "conj",
    "conjugate",
    "imag",
    "iscomplex",
    "iscomplexobj",
    "isreal",
    "isrealobj",
    "real",
]


@operation
def real(x: Any, /) -> Any:
    """Return the real part."""
    x = as_value(x)
    return real_part(x) if kind_of(x.dtype) == "c" else x


@operation
def imag(x: Any, /) -> Any:
    """Return the imaginary part; 0 of real numbers."""
    x = as_value(x)
    return imaginary_part(x) if kind_of(x.dtype) == "c" else full_like(x, 0)


@operation
def conj(x: Any, /) -> Any:
    """Return the complex conjugate; real numbers as they are."""
    return conjugated(as_value(x))


conjugate = conj


@operation(static=("deg",))
def angle(z: Any, deg: bool = False) -> Any:
    """Return the angle of complex numbers, in radians or degrees; of real ones 0 or pi."""
    (z,) = fractions(z)
    across, up = parts(z) if kind_of(z.dtype) == "c" else (z, full_like(z, 0))
    radians = binary("atan2", up, across)
    return binary("multiply", radians, full_like(radians, 180 / math.pi)) if deg else radians


@operation
def iscomplex(x: Any) -> Any:
    """Return where elements have an imaginary part other than 0."""
    x = as_value(x)
    return (
        compare("NE", imaginary_part(x), 0)
        if kind_of(x.dtype) == "c"
        else constant(False, BOOL, x.shape)
    )


@operation
def isreal(x: Any) -> Any:
    """Return where elements have no imaginary part other than 0."""
    x = as_value(x)
    return (
        compare("EQ", imaginary_part(x), 0)
        if kind_of(x.dtype) == "c"
        else constant(True, BOOL, x.shape)
    )


def iscomplexobj(x: Any) -> bool:
    """Return whether the dtype is complex."""
    return kind_of(dtype_of(x)) == "c"


def isrealobj(x: Any) -> bool:
    """Return whether the dtype is real."""
    return not iscomplexobj(x)
