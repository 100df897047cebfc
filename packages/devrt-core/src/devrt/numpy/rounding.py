"""Whole numbers near elements, by NumPy's names. Integers stay as they are."""

from __future__ import annotations

from typing import Any

from devrt.numpy.division import divmod
from devrt.numpy.limits import iinfo
from devrt.numpy.operands import fractions, full_like, of_kinds
from devrt.programs.eager import operation
from devrt.tracing import as_value, binary, compare, emit_one, kind_of, parts, select, unary

__all__ = ["around", "ceil", "fix", "floor", "rint", "round", "trunc"]


@operation
def floor(x: Any, /) -> Any:
    """Return the next whole number below."""
    (x,) = of_kinds("floor", "biuf", x)
    return unary("floor", x) if kind_of(x.dtype) == "f" else x


@operation
def ceil(x: Any, /) -> Any:
    """Return the next whole number above."""
    (x,) = of_kinds("ceil", "biuf", x)
    return unary("ceil", x) if kind_of(x.dtype) == "f" else x


@operation
def trunc(x: Any, /) -> Any:
    """Return the next whole number towards 0."""
    (x,) = of_kinds("trunc", "biuf", x)
    if kind_of(x.dtype) != "f":
        return x
    return select(compare("LT", x, 0), unary("ceil", x), unary("floor", x))


fix = trunc


@operation
def rint(x: Any, /) -> Any:
    """Return the nearest whole number, the even one of two; of a dtype of fractions."""
    return _nearest(*fractions(x))


def round(x: Any, /, decimals: int = 0) -> Any:
    """Return elements rounded to some decimals, to even ones of two equally near."""
    return _round(x, decimals)


around = round


@operation(static=("decimals",))
def _round(x: Any, decimals: int) -> Any:
    x = as_value(x)
    if kind_of(x.dtype) in "biu":
        return x if decimals >= 0 or kind_of(x.dtype) == "b" else _integers(x, 10**-decimals)
    if decimals == 0:
        return _nearest(x)
    scale = full_like(x, 10.0 ** (decimals if decimals > 0 else -decimals))
    forth, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return binary(back, _nearest(binary(forth, x, scale)), scale)


def _nearest(x: Any) -> Any:
    if kind_of(x.dtype) != "c":
        return unary("round_nearest_even", x)
    rounded = [unary("round_nearest_even", part) for part in parts(x)]
    return emit_one("stablehlo.complex", rounded, x.aval)


def _integers(x: Any, unit: int) -> Any:
    if unit > iinfo(x.dtype).max:
        return full_like(x, 0)
    whole, rest = divmod(x, unit)
    left = binary("subtract", unit, rest)
    is_uneven = compare("NE", binary("and", whole, 1), 0)
    is_up = binary(
        "or",
        compare("GT", rest, left),
        binary("and", compare("EQ", rest, left), is_uneven),
    )
    return binary("multiply", select(is_up, binary("add", whole, 1), whole), unit)
