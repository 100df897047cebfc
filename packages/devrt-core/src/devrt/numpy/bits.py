"""Elements as bits: integers' operations on them, and the parts of fractions."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt import dtypes
from devrt.errors import InvalidArgumentError
from devrt.numpy.limits import as_dtype, finfo
from devrt.numpy.operands import BOOL, bits_of, counted, dtype_of, fractions, full_like, of_kinds
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    at_user_line,
    binary,
    broadcast,
    compare,
    complex_from,
    concatenate,
    constant,
    convert,
    emit_one,
    kind_of,
    named,
    parts,
    promote,
    real_of,
    reshape,
    select,
    shaped,
    slice_,
    unary,
)

__all__ = [
    "bitwise_and",
    "bitwise_count",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "copysign",
    "frexp",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "ldexp",
    "left_shift",
    "modf",
    "nextafter",
    "right_shift",
    "signbit",
    "spacing",
    "view",
]

_INTEGERS = "biu"


@operation
def bitwise_and(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 & x2``."""
    return binary("and", *of_kinds("bitwise_and", _INTEGERS, x1, x2))


@operation
def bitwise_or(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 | x2``."""
    return binary("or", *of_kinds("bitwise_or", _INTEGERS, x1, x2))


@operation
def bitwise_xor(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 ^ x2``."""
    return binary("xor", *of_kinds("bitwise_xor", _INTEGERS, x1, x2))


@operation
def bitwise_not(x: Any, /) -> Any:
    """Return ``~x``; of truth values, whether they are false."""
    return unary("not", *of_kinds("bitwise_not", _INTEGERS, x))


bitwise_invert = invert = bitwise_not


@operation
def bitwise_count(x: Any, /) -> Any:
    """Return how many bits of the absolute value are 1: uint8."""
    (x,) = of_kinds("bitwise_count", "iu", x)
    size = unary("abs", x) if kind_of(x.dtype) == "i" else x
    return convert(unary("popcnt", size), named("uint8"))


@operation
def left_shift(x1: Any, x2: Any, /) -> Any:
    """Return the bits moved up; 0 where they are moved by as many as there are, or more."""
    return _shifted("left_shift", "shift_left", x1, x2)


@operation
def right_shift(x1: Any, x2: Any, /) -> Any:
    """Return the bits moved down; the sign's stays."""
    return _shifted("right_shift", "shift_right_arithmetic", x1, x2)


def _shifted(name: str, shift: str, x1: Any, x2: Any) -> Any:
    x1, x2 = of_kinds(name, "iu", *counted(x1, x2))
    if kind_of(x1.dtype) == "u" and name == "right_shift":
        shift = "shift_right_logical"
    return binary(shift, x1, x2)


bitwise_left_shift = left_shift
bitwise_right_shift = right_shift


# -- what an element is -----------------------------------------------------------------------


@operation
def isnan(x: Any, /) -> Any:
    """Return where elements are NaN."""
    (x,) = promote(x)
    return compare("NE", x, x) if kind_of(x.dtype) in "fc" else constant(False, BOOL, x.shape)


@operation
def isinf(x: Any, /) -> Any:
    """Return where elements are infinite; complex ones where either part is."""
    (x,) = promote(x)
    kind = kind_of(x.dtype)
    if kind == "c":
        return binary("or", *(isinf(part) for part in parts(x)))
    if kind != "f":
        return constant(False, BOOL, x.shape)
    return compare("EQ", unary("abs", x), float("inf"))


@operation
def isfinite(x: Any, /) -> Any:
    """Return where elements are neither infinite nor NaN."""
    (x,) = promote(x)
    kind = kind_of(x.dtype)
    if kind == "c":
        return binary("and", *(isfinite(part) for part in parts(x)))
    return unary("is_finite", x, BOOL) if kind == "f" else constant(True, BOOL, x.shape)


@operation
def isneginf(x: Any, /) -> Any:
    """Return where elements are negative infinity."""
    return _is_infinity("isneginf", x, float("-inf"))


@operation
def isposinf(x: Any, /) -> Any:
    """Return where elements are positive infinity."""
    return _is_infinity("isposinf", x, float("inf"))


def _is_infinity(name: str, x: Any, infinity: float) -> Any:
    (x,) = of_kinds(name, "biuf", x)
    return compare("EQ", x, infinity) if kind_of(x.dtype) == "f" else constant(False, BOOL, x.shape)


@operation
def signbit(x: Any, /) -> Any:
    """Return where elements have the sign's bit: below 0, and -0.0."""
    (x,) = of_kinds("signbit", "biuf", x)
    kind = kind_of(x.dtype)
    if kind == "f":
        return compare("LT", _bitcast(x, _signed(x.dtype)), 0)
    return compare("LT", x, 0) if kind == "i" else constant(False, BOOL, x.shape)


def _signed(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return named(bits_of(dtype).name[1:])


# -- parts of fractions -----------------------------------------------------------------------


@operation
def copysign(x1: Any, x2: Any, /) -> Any:
    """Return the absolute value of ``x1`` with the sign of ``x2``."""
    x1, x2 = fractions(*of_kinds("copysign", "biuf", x1, x2))
    size = unary("abs", x1)
    return select(signbit(x2), unary("negate", size), size)


@operation
def nextafter(x1: Any, x2: Any, /) -> Any:
    """Return the next fraction after ``x1`` towards ``x2``."""
    x1, x2 = broadcast(*fractions(*of_kinds("nextafter", "biuf", x1, x2)), operation="nextafter")
    return emit_one("chlo.next_after", (x1, x2), shaped(x1.shape, x1.dtype))


@operation
def spacing(x: Any, /) -> Any:
    """Return the distance to the next fraction away from 0, of the sign of ``x``."""
    (x,) = fractions(*of_kinds("spacing", "biuf", x))
    away = copysign(full_like(x, float("inf")), x)
    return binary("subtract", nextafter(x, away), x)


@operation
def modf(x: Any, /) -> tuple[Any, Any]:
    """Return the part behind the point and the whole part, both of the sign of ``x``."""
    (x,) = fractions(*of_kinds("modf", "biuf", x))
    whole = select(compare("LT", x, 0), unary("ceil", x), unary("floor", x))
    rest = select(isinf(x), full_like(x, 0), binary("subtract", x, whole))
    return copysign(rest, x), copysign(whole, x)


@operation
def frexp(x: Any, /) -> tuple[Any, Any]:
    """Return mantissas from 0.5 to below 1 and int32 exponents: ``mantissa * 2**exponent``."""
    (x,) = fractions(*of_kinds("frexp", "biuf", x))
    digits, bias, exponents = _layout(x.dtype)
    is_small = compare("LT", unary("abs", x), float(2.0 ** (2 - bias)))
    scaled = select(is_small, binary("multiply", x, float(2.0**digits)), x)
    bits = _bitcast(scaled, _signed(x.dtype))
    mask = constant(exponents << (digits - 1), bits.dtype)
    exponent = binary("shift_right_logical", binary("and", bits, mask), digits - 1)
    half = constant((bias - 1) << (digits - 1), bits.dtype)
    mantissa = _bitcast(binary("or", binary("and", bits, unary("not", mask)), half), x.dtype)
    is_plain = binary("and", isfinite(x), compare("NE", scaled, 0))
    shift = select(is_small, constant(digits, named("int32")), 0)
    power = binary("subtract", convert(exponent, named("int32")), bias - 1)
    power = binary("subtract", power, shift)
    return select(is_plain, mantissa, x), select(is_plain, power, full_like(power, 0))


def _layout(dtype: np.dtype[Any]) -> tuple[int, int, int]:
    """Return a fraction's digits, its exponent's bias, and the largest exponent's bits."""
    info = finfo(dtype)
    bits = dtypes.from_numpy(dtype).bits
    width = bits - 1 - info.nmant
    return info.nmant + 1, (1 << (width - 1)) - 1, (1 << width) - 1


@operation
def ldexp(x1: Any, x2: Any, /) -> Any:
    """Return ``x1 * 2**x2``, rounded once."""
    if kind_of(dtype_of(x2)) not in _INTEGERS:
        msg = f"ldexp with an exponent of {dtype_of(x2)}{at_user_line()}: it is of integers."
        raise InvalidArgumentError(msg, operation="ldexp")
    (x,) = fractions(*of_kinds("ldexp", "biuf", x1))
    (power,) = promote(x2, dtype=named("int32"))
    _, bias, _ = _layout(x.dtype)
    # By steps that are powers of two themselves: 2**x2 may be none where the result is.
    for _ in range(3):
        step = binary("maximum", binary("minimum", power, bias), 1 - bias)
        x = binary("multiply", x, _power_of_two(step, x.dtype))
        power = binary("subtract", power, step)
    return x


def _power_of_two(exponent: Any, dtype: np.dtype[Any]) -> Any:
    digits, bias, _ = _layout(dtype)
    bits = convert(binary("add", exponent, bias), _signed(dtype))
    return _bitcast(binary("shift_left", bits, digits - 1), dtype)


# -- other dtypes for the same bits -----------------------------------------------------------


def view(x: Any, /, dtype: Any = None) -> Any:
    """Return the same bits as another dtype; of another width the last dimension changes."""
    target = as_dtype(dtype)
    return x if target is None else _view(x, target)


@operation(static=("dtype",))
def _view(x: Any, dtype: np.dtype[Any]) -> Any:
    x = as_value(x)
    if BOOL in (x.dtype, dtype) and x.dtype != dtype:
        x = convert(x, named("uint8")) if x.dtype == BOOL else x
        if dtype == BOOL:
            return compare("NE", _bitcast(x, named("uint8")), 0)
    if x.dtype.kind == "c" or dtype.kind == "c":
        return _complex_view(x, dtype)
    return _bitcast(x, dtype)


def _complex_view(x: Any, dtype: np.dtype[Any]) -> Any:
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c":
        halves = [reshape(part, (*x.shape, 1)) for part in parts(x)]
        paired = concatenate(halves, x.ndim)
        flat = reshape(paired, (*x.shape[:-1], 2 * x.shape[-1])) if x.ndim else paired
        return _view(flat, dtype)
    real = _bitcast(x, real_of(dtype))
    _check_width(real.shape, 2, dtype)
    *rows, last = real.shape
    zeros = (0,) * len(rows)
    strides = (*(1 for _ in rows), 2)
    return complex_from(*(slice_(real, (*zeros, i), (*rows, last), strides) for i in (0, 1)))


def _check_width(shape: tuple[int, ...], ratio: int, dtype: np.dtype[Any]) -> None:
    if not shape or shape[-1] % ratio:
        msg = (
            f"view: {dtype.name} takes {ratio} elements each{at_user_line()}, and the last "
            f"dimension of shape {shape} does not divide by that."
        )
        raise InvalidArgumentError(msg, operation="view", shape=shape)


def _bitcast(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a value's bits as another dtype, by NumPy's rule for other widths."""
    if x.dtype == dtype:
        return x
    before, after = (dtypes.from_numpy(each).bits for each in (x.dtype, dtype))
    shape = x.shape
    if before < after:
        ratio = after // before
        _check_width(shape, ratio, dtype)
        x = reshape(x, (*shape[:-1], shape[-1] // ratio, ratio))
        return emit_one("stablehlo.bitcast_convert", (x,), shaped(x.shape[:-1], dtype))
    ratio = before // after
    wide = shape if ratio == 1 else (*shape, ratio)
    cast = emit_one("stablehlo.bitcast_convert", (x,), shaped(wide, dtype))
    if ratio == 1:
        return cast
    return reshape(cast, (*shape[:-1], shape[-1] * ratio)) if shape else cast
