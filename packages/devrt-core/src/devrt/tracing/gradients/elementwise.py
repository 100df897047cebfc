"""Rules of operations on elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from devrt.tracing.complex_parts import complex_from, imaginary_part, real_part
from devrt.tracing.conversions import convert
from devrt.tracing.elementwise import compare, nary, unary
from devrt.tracing.gradients.rules import (
    add,
    div,
    full,
    mul,
    neg,
    nothing,
    select,
    sub,
    where,
    zeros,
)
from devrt.tracing.gradients.walk import Rule, Walk, is_inexact
from devrt.tracing.ir import Op
from devrt.tracing.reductions import reduce
from devrt.tracing.trace import constant

__all__ = ["RULES"]

One = Callable[[Any, Any, Any], Any]
Two = Callable[[Any, Any, Any, Any], Any]


def _square(x: Any) -> Any:
    return mul(x, x)


def _root(x: Any) -> Any:
    return unary("sqrt", x)


def _abs(g: Any, x: Any, y: Any) -> Any:
    if x.aval.dtype.kind != "c":
        return mul(g, unary("sign", x))
    length = where("EQ", y, 0, 1, y)
    direction = div(unary("chlo.conj", x), complex_from(length, zeros(length)))
    return mul(complex_from(g, zeros(g)), direction)


def _convert(g: Any, x: Any, _: Any) -> Any:
    if not is_inexact(x):
        return None
    if g.aval.dtype.kind == "c" and x.aval.dtype.kind != "c":
        g = real_part(g)
    return convert(g, x.aval.dtype)


def _digamma(x: Any) -> Any:
    return unary("chlo.digamma", x)


def _gaussian(x: Any) -> Any:
    return mul(2 / math.sqrt(math.pi), unary("exponential", neg(_square(x))))


def _erf_inv(g: Any, _: Any, y: Any) -> Any:
    return mul(g, mul(math.sqrt(math.pi) / 2, unary("exponential", _square(y))))


_UNARY: dict[str, One] = {
    "stablehlo.negate": lambda g, x, y: neg(g),
    "stablehlo.abs": _abs,
    "stablehlo.exponential": lambda g, x, y: mul(g, y),
    "stablehlo.exponential_minus_one": lambda g, x, y: mul(g, add(y, full(1, y))),
    "stablehlo.log": lambda g, x, y: div(g, x),
    "stablehlo.log_plus_one": lambda g, x, y: div(g, add(x, full(1, x))),
    "stablehlo.logistic": lambda g, x, y: mul(g, mul(y, sub(1, y))),
    "stablehlo.sine": lambda g, x, y: mul(g, unary("cosine", x)),
    "stablehlo.cosine": lambda g, x, y: neg(mul(g, unary("sine", x))),
    "stablehlo.tan": lambda g, x, y: mul(g, add(_square(y), full(1, y))),
    "chlo.tan": lambda g, x, y: mul(g, add(_square(y), full(1, y))),
    "stablehlo.tanh": lambda g, x, y: mul(g, sub(1, _square(y))),
    "stablehlo.sqrt": lambda g, x, y: mul(g, div(0.5, y)),
    "stablehlo.rsqrt": lambda g, x, y: mul(g, mul(-0.5, div(y, x))),
    "stablehlo.cbrt": lambda g, x, y: mul(g, div(y, mul(3, x))),
    "stablehlo.convert": _convert,
    "stablehlo.reduce_precision": lambda g, x, y: g,
    "stablehlo.real": lambda g, x, y: complex_from(g, zeros(g)),
    "stablehlo.imag": lambda g, x, y: complex_from(zeros(g), neg(g)),
    "chlo.conj": lambda g, x, y: unary("chlo.conj", g),
    "chlo.acos": lambda g, x, y: neg(div(g, _root(sub(1, _square(x))))),
    "chlo.asin": lambda g, x, y: div(g, _root(sub(1, _square(x)))),
    "chlo.atan": lambda g, x, y: div(g, add(_square(x), full(1, x))),
    "chlo.acosh": lambda g, x, y: div(g, mul(_root(sub(x, 1)), _root(add(x, full(1, x))))),
    "chlo.asinh": lambda g, x, y: div(g, _root(add(_square(x), full(1, x)))),
    "chlo.atanh": lambda g, x, y: div(g, sub(1, _square(x))),
    "chlo.cosh": lambda g, x, y: mul(g, unary("chlo.sinh", x)),
    "chlo.sinh": lambda g, x, y: mul(g, unary("chlo.cosh", x)),
    "chlo.square": lambda g, x, y: mul(g, mul(2, x)),
    "chlo.erf": lambda g, x, y: mul(g, _gaussian(x)),
    "chlo.erfc": lambda g, x, y: neg(mul(g, _gaussian(x))),
    "chlo.erf_inv": _erf_inv,
    "chlo.lgamma": lambda g, x, y: mul(g, _digamma(x)),
    "chlo.digamma": lambda g, x, y: mul(g, nary("chlo.polygamma", full(1, x), x)),
}

Pair = tuple[Two | None, Two | None]


def _power_of_base(g: Any, x: Any, n: Any, _: Any) -> Any:
    lower = where("EQ", n, 0, 1, sub(n, 1))
    slope = where("EQ", n, 0, 0, mul(n, nary("power", x, lower)))
    return mul(g, slope)


def _power_of_exponent(g: Any, x: Any, _: Any, y: Any) -> Any:
    return mul(g, mul(unary("log", where("EQ", x, 0, 1, x)), y))


def _largest(direction: str) -> Two:
    """Return the cotangent of the first operand; where both are equal each has half."""

    def rule(g: Any, x: Any, y: Any, _: Any) -> Any:
        half = where("EQ", x, y, 0.5, 0)
        return mul(g, where(direction, x, y, 1, half))

    return rule


def _truncated(x: Any) -> Any:
    return mul(unary("sign", x), unary("floor", unary("abs", x)))


def _of_angle(numerator: Any, x: Any, y: Any) -> Any:
    return div(numerator, add(_square(x), _square(y)))


_BINARY: dict[str, Pair] = {
    "stablehlo.add": (lambda g, x, y, z: g, lambda g, x, y, z: g),
    "stablehlo.subtract": (lambda g, x, y, z: g, lambda g, x, y, z: neg(g)),
    "stablehlo.multiply": (lambda g, x, y, z: mul(g, y), lambda g, x, y, z: mul(g, x)),
    "stablehlo.divide": (
        lambda g, x, y, z: div(g, y),
        lambda g, x, y, z: neg(div(mul(g, z), y)),
    ),
    "stablehlo.power": (_power_of_base, _power_of_exponent),
    "stablehlo.maximum": (_largest("GT"), lambda g, x, y, z: _largest("GT")(g, y, x, z)),
    "stablehlo.minimum": (_largest("LT"), lambda g, x, y, z: _largest("LT")(g, y, x, z)),
    "stablehlo.remainder": (
        lambda g, x, y, z: g,
        lambda g, x, y, z: neg(mul(g, _truncated(div(x, y)))),
    ),
    "stablehlo.atan2": (
        lambda g, x, y, z: _of_angle(mul(g, y), x, y),
        lambda g, x, y, z: neg(_of_angle(mul(g, x), x, y)),
    ),
    "stablehlo.complex": (
        lambda g, x, y, z: real_part(g),
        lambda g, x, y, z: neg(imaginary_part(g)),
    ),
    "chlo.polygamma": (
        None,
        lambda g, n, x, z: mul(g, nary("chlo.polygamma", add(n, full(1, n)), x)),
    ),
    "chlo.zeta": (
        None,
        lambda g, x, q, z: mul(g, neg(mul(x, nary("chlo.zeta", add(x, full(1, x)), q)))),
    ),
}

_CONSTANT = """
    stablehlo.sign stablehlo.floor stablehlo.ceil stablehlo.round_nearest_even
    stablehlo.round_nearest_afz stablehlo.is_finite stablehlo.compare stablehlo.bitcast_convert
    stablehlo.constant stablehlo.iota chlo.next_after chlo.is_inf chlo.is_pos_inf chlo.is_neg_inf
""".split()
"""Operations whose results do not change where their operands change a little."""


def _of_unary(slope: One) -> Rule:
    def rule(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
        return [slope(given[0], op.operands[0], op.results[0])]

    return rule


def _of_binary(name: str, slopes: Pair) -> Rule:
    def rule(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
        made: list[Any] = []
        for slope, operand in zip(slopes, op.operands, strict=True):
            if slope is None and operand in walk.active:
                raise walk.refuse(op, f"devrt knows no derivative of {name} by its first operand")
            if slope is None or operand not in walk.active:
                made.append(None)
            else:
                x, y = op.operands
                made.append(slope(given[0], x, y, op.results[0]))
        return made

    return rule


def _select(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    (g,) = given
    condition, zero = op.operands[0], zeros(g)
    return [
        None,
        select(condition, g, zero),
        select(condition, zero, g),
    ]


def _clamp(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    (g,) = given
    low, x, high = op.operands
    is_inside = nary("and", compare("GT", x, low), compare("LT", x, high))
    bounds = [
        _bound(g, x, bound, direction) if bound in walk.active else None
        for bound, direction in ((low, "LT"), (high, "GT"))
    ]
    return [bounds[0], select(is_inside, g, zeros(g)), bounds[1]]


def _bound(g: Any, x: Any, bound: Any, direction: str) -> Any:
    """Return the cotangent of a bound: what fell on elements that lay beyond it."""
    part = select(compare(direction, x, bound), g, zeros(g))
    if bound.aval.shape == g.aval.shape:
        return part
    return reduce("add", part, constant(0, g.aval.dtype), range(len(g.aval.shape)))


def _passed(_: Op, given: Sequence[Any], __: Walk) -> list[Any]:
    return list(given)


def _passed_to_first(_: Op, given: Sequence[Any], __: Walk) -> list[Any]:
    return [*given, None]


RULES: dict[str, Rule] = {
    **{name: _of_unary(slope) for name, slope in _UNARY.items()},
    **{name: _of_binary(name, slopes) for name, slopes in _BINARY.items()},
    **dict.fromkeys(_CONSTANT, nothing),
    "stablehlo.select": _select,
    "stablehlo.clamp": _clamp,
    "stablehlo.optimization_barrier": _passed,
    "devrt.alias": _passed,
    "devrt.zero_signed": _passed_to_first,
}
