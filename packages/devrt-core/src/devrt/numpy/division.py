"""Quotients and remainders, by the rules of Python and of the array API standard."""

from __future__ import annotations

from typing import Any

from devrt.numpy.bits import copysign, isinf
from devrt.numpy.operands import counted, full_like, of_kinds
from devrt.programs.eager import operation
from devrt.tracing import binary, broadcast, compare, composite, kind_of, select, unary

__all__ = ["divmod", "floor_divide", "fmod", "mod", "remainder"]


@operation
def floor_divide(x1: Any, x2: Any, /) -> Any:
    """Return the quotient, rounded down; of integers, 0 where ``x2`` is 0.

    Of fractions as the array API standard has it: a finite element divided by 0, and an infinite
    one divided by a finite one, are infinite.
    """
    x1, x2 = _operands("floor_divide", x1, x2)
    return _floored_integers(x1, x2)[0] if kind_of(x1.dtype) in "iu" else _floored(x1, x2)


@operation
def remainder(x1: Any, x2: Any, /) -> Any:
    """Return what `floor_divide` leaves, of the sign of ``x2``; of integers 0 where ``x2`` is."""
    x1, x2 = _operands("remainder", x1, x2)
    return _floored_integers(x1, x2)[1] if kind_of(x1.dtype) in "iu" else _modulo(x1, x2)


mod = remainder


@operation
def divmod(x1: Any, x2: Any, /) -> tuple[Any, Any]:
    """Return `floor_divide` and `remainder`."""
    x1, x2 = _operands("divmod", x1, x2)
    if kind_of(x1.dtype) in "iu":
        return _floored_integers(x1, x2)
    return _floored(x1, x2), _modulo(x1, x2)


@operation
def fmod(x1: Any, x2: Any, /) -> Any:
    """Return what the quotient rounded towards 0 leaves, of the sign of ``x1``."""
    x1, x2 = _operands("fmod", x1, x2)
    if kind_of(x1.dtype) == "f":
        return binary("remainder", x1, x2)
    is_zero = compare("EQ", x2, 0)
    rest = binary("remainder", x1, select(is_zero, full_like(x2, 1), x2))
    return select(is_zero, full_like(rest, 0), rest)


def _operands(name: str, x1: Any, x2: Any) -> list[Any]:
    return broadcast(*of_kinds(name, "iuf", *counted(x1, x2)), operation=name)


def _floored_integers(x1: Any, x2: Any) -> tuple[Any, Any]:
    zero, one = full_like(x1, 0), full_like(x1, 1)
    is_zero = compare("EQ", x2, zero)
    divisor = select(is_zero, one, x2)
    quotient, rest = binary("divide", x1, divisor), binary("remainder", x1, divisor)
    if kind_of(x1.dtype) == "i":
        is_below = binary("and", compare("NE", rest, zero), _differ(rest, divisor))
        quotient = select(is_below, binary("subtract", quotient, one), quotient)
        rest = select(is_below, binary("add", rest, divisor), rest)
    return select(is_zero, zero, quotient), select(is_zero, zero, rest)


def _differ(x1: Any, x2: Any) -> Any:
    """Return where two elements differ in sign."""
    return binary("xor", compare("LT", x1, 0), compare("LT", x2, 0))


def _modulo(x1: Any, x2: Any) -> Any:
    rest = binary("remainder", x1, x2)
    is_moved = binary("and", compare("NE", rest, 0), _differ(rest, x2))
    return composite(
        "zero_signed", _zero_signed, [select(is_moved, binary("add", rest, x2), rest), x2]
    )[0]


def _zero_signed(rest: Any, divisor: Any) -> list[Any]:
    """Give zeros the sign of the divisor. The gradient passes: no part of it says that it may."""
    is_zero = compare("EQ", rest, 0)
    return [select(is_zero, copysign(full_like(rest, 0), divisor), rest)]


def _floored(x1: Any, x2: Any) -> Any:
    rest = binary("remainder", x1, x2)
    quotient = binary("divide", binary("subtract", x1, rest), x2)
    is_below = binary("and", compare("NE", rest, 0), _differ(rest, x2))
    quotient = select(is_below, binary("subtract", quotient, 1), quotient)
    # The quotient is whole but for rounding: take the nearest.
    floor = unary("floor", quotient)
    is_short = compare("GT", binary("subtract", quotient, floor), 0.5)
    floor = select(is_short, binary("add", floor, 1), floor)
    exact = binary("divide", x1, x2)
    signed = select(compare("EQ", floor, 0), copysign(full_like(x1, 0), exact), floor)
    is_exact = binary("or", compare("EQ", x2, 0), isinf(x1))
    return select(is_exact, exact, signed)
