"""Random numbers of a shape, by a distribution: the bits are JAX's, of the same key."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.numpy.arguments import shape_of
from devrt.programs.eager import operation
from devrt.random.keys import raw_key, split_words
from devrt.random.threefry import random_bits
from devrt.tracing import (
    as_value,
    broadcast_shapes,
    broadcast_to,
    clamp,
    compare,
    complex_from,
    constant,
    convert,
    emit_one,
    index_in_dim,
    named,
    nary,
    real_of,
    shaped,
    unary,
)
from devrt.tracing.promotion import dtype_of, typed

__all__ = [
    "bernoulli",
    "bits",
    "cauchy",
    "exponential",
    "gumbel",
    "laplace",
    "logistic",
    "normal",
    "rademacher",
    "truncated_normal",
    "uniform",
]

Shape = int | Sequence[int]


def float_dtype(dtype: Any, function: str) -> np.dtype[Any]:
    """Return a dtype of fractions.

    Raises
    ------
    InvalidTypeError
        If it is of another kind.
    """
    found = dtype_of(dtype)
    if found.name not in ("float16", "bfloat16", "float32", "float64"):
        msg = f"{function}: dtype must be one of fractions, of 16 to 64 bits, and is {found.name}."
        raise InvalidTypeError(msg, dtype=found.name)
    return found


def _mantissa_bits(dtype: np.dtype[Any]) -> int:
    return {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}[dtype.name]


def _tiny(dtype: np.dtype[Any]) -> Any:
    """Return the smallest normal number."""
    exponent = {"bfloat16": -126, "float16": -14, "float32": -126, "float64": -1022}[dtype.name]
    return np.ldexp(1.0, exponent)


def check_shape(function: str, shape: tuple[int, ...], *parameters: tuple[int, ...]) -> None:
    """Raise InvalidArgumentError unless parameters broadcast to the shape of the result."""
    common = broadcast_shapes(shape, *parameters, operation=function)
    if common != shape:
        shown = " and ".join(map(str, parameters))
        msg = f"{function}: parameters of shapes {shown} do not broadcast to shape {shape}."
        raise InvalidArgumentError(msg, shape=shape)


def bits(key: Any, shape: Shape = (), dtype: Any = np.uint32) -> Any:
    """Return uniformly random unsigned integers: all of ``dtype`` are as likely."""
    found = dtype_of(dtype)
    if found.kind != "u" or found.name not in ("uint8", "uint16", "uint32", "uint64"):
        msg = f"bits: dtype must be of unsigned integers, of 8 to 64 bits, and is {found.name}."
        raise InvalidTypeError(msg, dtype=found.name)
    return _bits(raw_key(key, "bits"), shape_of(shape), found)


@operation(static=("shape", "dtype"))
def _bits(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    return random_bits(as_value(data), dtype, shape)


def uniform(
    key: Any, shape: Shape = (), dtype: Any = float, minval: Any = 0.0, maxval: Any = 1.0
) -> Any:
    """Return random numbers from ``minval`` to below ``maxval``."""
    found = float_dtype(dtype, "uniform")
    return _uniform(raw_key(key, "uniform"), minval, maxval, shape_of(shape), found)


@operation(static=("shape", "dtype"))
def _uniform(data: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return uniform_values(as_value(data), low, high, shape, dtype)


def uniform_values(data: Any, low: Any, high: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return uniform numbers of one key's words."""
    low, high = (convert(as_value(bound), dtype) for bound in (low, high))
    check_shape("uniform", shape, low.aval.shape, high.aval.shape)
    mantissa, width = _mantissa_bits(dtype), dtype.itemsize * 8
    # As many bits as the mantissa needs: bfloat16's seven come from a byte.
    drawn = 8 if mantissa < 8 else width
    unsigned = named(f"uint{width}")
    words = convert(random_bits(data, named(f"uint{drawn}"), shape), unsigned)
    fraction = nary("shift_right_logical", words, constant(drawn - mantissa, unsigned))
    one = constant(np.array(1.0, dtype).view(unsigned), unsigned)
    pattern = nary("or", fraction, one)  # from 1 to below 2
    number = emit_one("stablehlo.bitcast_convert", (pattern,), shaped(shape, dtype))
    number = nary("subtract", number, constant(1.0, dtype))
    spread = nary("multiply", number, nary("subtract", high, low))
    return nary("maximum", broadcast_to(low, shape), nary("add", spread, low))


def normal(key: Any, shape: Shape = (), dtype: Any = float) -> Any:
    """Return random numbers of the normal distribution with mean 0 and variance 1."""
    return _normal(raw_key(key, "normal"), shape_of(shape), _number_dtype(dtype, "normal"))


def _number_dtype(dtype: Any, function: str) -> np.dtype[Any]:
    found = dtype_of(dtype)
    return found if found.kind == "c" else float_dtype(dtype, function)


@operation(static=("shape", "dtype"))
def _normal(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    data = as_value(data)
    if dtype.kind != "c":
        return _real_normal(data, shape, dtype)
    part = real_of(dtype)
    keys = split_words(data, (2,))
    both = [_real_normal(index_in_dim(keys, i), shape, part) for i in (0, 1)]
    return nary("divide", complex_from(*both), constant(np.sqrt(2), dtype))


def _real_normal(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    low = np.nextafter(np.array(-1.0, dtype), np.array(0.0, dtype), dtype=dtype)
    drawn = uniform_values(data, constant(low, dtype), 1.0, shape, dtype)
    return nary("multiply", constant(np.sqrt(2), dtype), unary("chlo.erf_inv", drawn))


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Shape | None = None, dtype: Any = float
) -> Any:
    """Return random numbers of the normal distribution between two bounds."""
    found = float_dtype(dtype, "truncated_normal")
    bounds = np.shape(lower), np.shape(upper)
    given = broadcast_shapes(*bounds) if shape is None else shape_of(shape)
    check_shape("truncated_normal", given, *bounds)
    data = raw_key(key, "truncated_normal")
    return _truncated_normal(data, lower, upper, given, found)


@operation(static=("shape", "dtype"))
def _truncated_normal(
    data: Any, lower: Any, upper: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    root = constant(np.sqrt(2), dtype)
    lower, upper = (convert(as_value(bound), dtype) for bound in (lower, upper))
    a, b = (unary("chlo.erf", nary("divide", bound, root)) for bound in (lower, upper))
    drawn = uniform_values(as_value(data), a, b, shape, dtype)
    found = nary("multiply", root, unary("chlo.erf_inv", drawn))
    infinity = constant(np.inf, dtype)
    least = nary("chlo.next_after", lower, infinity)
    most = nary("chlo.next_after", upper, unary("negate", infinity))
    return clamp(broadcast_to(least, shape), found, broadcast_to(most, shape))


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None, mode: str = "low") -> Any:
    """Return random truth values, each true with probability ``p``.

    ``mode="high"`` draws twice as many bits, for very small probabilities.
    """
    if mode not in ("low", "high"):
        msg = f"bernoulli: mode is 'low' or 'high', and not {mode!r}."
        raise InvalidArgumentError(msg, mode=mode)
    float_dtype(typed(p)[0], "bernoulli")
    given = np.shape(p) if shape is None else shape_of(shape)
    check_shape("bernoulli", given, np.shape(p))
    return _bernoulli(raw_key(key, "bernoulli"), p, given, mode)


@operation(static=("shape", "mode"))
def _bernoulli(data: Any, p: Any, shape: tuple[int, ...], mode: str) -> Any:
    data, p = as_value(data), as_value(p)
    p = convert(p, p.aval.dtype)
    dtype = p.aval.dtype
    if mode == "low":
        return compare("LT", uniform_values(data, 0.0, 1.0, shape, dtype), p)
    both = uniform_values(data, 0.0, 1.0, (2, *shape), dtype)
    coarse, fine = (index_in_dim(both, i) for i in (0, 1))
    fine = nary("multiply", fine, constant(2.0 ** -_mantissa_bits(dtype), dtype))
    return compare("LT", fine, nary("subtract", p, coarse))


def rademacher(key: Any, shape: Shape = (), dtype: Any = int) -> Any:
    """Return 1 or -1, each as likely."""
    found = dtype_of(dtype)
    return _rademacher(raw_key(key, "rademacher"), shape_of(shape), found)


@operation(static=("shape", "dtype"))
def _rademacher(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    drawn = _bernoulli(data, 0.5, shape, "low")
    doubled = nary("multiply", convert(drawn, dtype), constant(2, dtype))
    return nary("subtract", doubled, constant(1, dtype))


def exponential(key: Any, shape: Shape = (), dtype: Any = float) -> Any:
    """Return random numbers of the exponential distribution with rate 1."""
    found = float_dtype(dtype, "exponential")
    return _exponential(raw_key(key, "exponential"), shape_of(shape), found)


@operation(static=("shape", "dtype"))
def _exponential(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    drawn = uniform_values(as_value(data), 0.0, 1.0, shape, dtype)
    return unary("negate", unary("log_plus_one", unary("negate", drawn)))


def gumbel(key: Any, shape: Shape = (), dtype: Any = float, mode: str | None = None) -> Any:
    """Return random numbers of the Gumbel distribution.

    ``mode="high"`` draws twice as many bits, for values far from the mean.
    """
    if mode not in (None, "low", "high"):
        msg = f"gumbel: mode is 'low' or 'high', and not {mode!r}."
        raise InvalidArgumentError(msg, mode=mode)
    found = float_dtype(dtype, "gumbel")
    return gumbel_values(raw_key(key, "gumbel"), shape_of(shape), found, mode or "low")


@operation(static=("shape", "dtype", "mode"))
def gumbel_values(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any], mode: str) -> Any:
    tiny = _tiny(dtype)
    if mode == "low":
        drawn = uniform_values(as_value(data), tiny, 1.0, shape, dtype)
        inner = unary("log", drawn)
    else:
        both = uniform_values(as_value(data), 0.0, 1.0, (2, *shape), dtype)
        high, low = (index_in_dim(both, i) for i in (0, 1))
        step = nary("multiply", low, constant(2.0 ** -_mantissa_bits(dtype), dtype))
        fine = nary("add", nary("add", high, step), constant(tiny, dtype))
        is_large = compare("GE", high, constant(0.5, dtype))
        drawn = emit_one("stablehlo.select", (is_large, high, fine), high.aval)
        inner = unary("log_plus_one", unary("negate", drawn))
    return unary("negate", unary("log", unary("negate", inner)))


def laplace(key: Any, shape: Shape = (), dtype: Any = float) -> Any:
    """Return random numbers of the Laplace distribution."""
    found = float_dtype(dtype, "laplace")
    return _laplace(raw_key(key, "laplace"), shape_of(shape), found)


@operation(static=("shape", "dtype"))
def _laplace(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    low = -1.0 + 2.0 ** -(_mantissa_bits(dtype) + 1)
    drawn = uniform_values(as_value(data), constant(low, dtype), 1.0, shape, dtype)
    size = unary("log_plus_one", unary("negate", unary("abs", drawn)))
    return nary("multiply", unary("sign", drawn), size)


def logistic(key: Any, shape: Shape = (), dtype: Any = float) -> Any:
    """Return random numbers of the logistic distribution."""
    found = float_dtype(dtype, "logistic")
    return _logistic(raw_key(key, "logistic"), shape_of(shape), found)


@operation(static=("shape", "dtype"))
def _logistic(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    drawn = uniform_values(as_value(data), _tiny(dtype), 1.0, shape, dtype)
    rest = unary("log_plus_one", unary("negate", drawn))
    return nary("subtract", unary("log", drawn), rest)


def cauchy(key: Any, shape: Shape = (), dtype: Any = float) -> Any:
    """Return random numbers of the Cauchy distribution."""
    found = float_dtype(dtype, "cauchy")
    return _cauchy(raw_key(key, "cauchy"), shape_of(shape), found)


@operation(static=("shape", "dtype"))
def _cauchy(data: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    epsilon = 2.0 ** -_mantissa_bits(dtype)
    drawn = uniform_values(as_value(data), epsilon, 1.0, shape, dtype)
    centred = nary("subtract", drawn, constant(0.5, dtype))
    return unary("tan", nary("multiply", constant(math.pi, dtype), centred))
