"""What the rules of all families are written with: arithmetic on values of one dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.tracing.elementwise import compare, nary, unary
from devrt.tracing.trace import as_value, constant, emit_one

__all__ = [
    "add",
    "div",
    "full",
    "mul",
    "neg",
    "nothing",
    "select",
    "sub",
    "where",
    "zeros",
    "zeros_if_none",
]


def add(x: Any, y: Any) -> Any:
    """Return ``x + y``."""
    return nary("add", x, y)


def sub(x: Any, y: Any) -> Any:
    """Return ``x - y``; either may be a number."""
    x, y = _lifted(x, y)
    return nary("subtract", x, y)


def mul(x: Any, y: Any) -> Any:
    """Return ``x * y``; either may be a number."""
    x, y = _lifted(x, y)
    return nary("multiply", x, y)


def div(x: Any, y: Any) -> Any:
    """Return ``x / y``; either may be a number."""
    x, y = _lifted(x, y)
    return nary("divide", x, y)


def neg(x: Any) -> Any:
    """Return ``-x``."""
    return unary("negate", x)


def _lifted(x: Any, y: Any) -> tuple[Any, Any]:
    if isinstance(x, int | float):
        return full(x, y), y
    return (x, full(y, x)) if isinstance(y, int | float) else (x, y)


def full(number: float, like: Any) -> Any:
    """Return a constant of the shape and dtype of a value."""
    return constant(number, like.aval.dtype, like.aval.shape)


def zeros(like: Any) -> Any:
    """Return zeros of the shape and dtype of a value."""
    return full(0, like)


def zeros_if_none(cotangents: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return cotangents with zeros in place of None."""
    return [
        zeros(value) if cotangent is None else cotangent
        for cotangent, value in zip(cotangents, values, strict=True)
    ]


def where(direction: str, x: Any, y: Any, then: Any, other: Any) -> Any:
    """Return ``then`` where ``x`` compares with ``y`` so, and ``other`` elsewhere.

    Numbers take the shape and dtype of ``x``; operands are of one shape.
    """
    x, y = _lifted(x, y)
    then, other = (
        full(each, x) if isinstance(each, int | float) else each for each in (then, other)
    )
    return select(compare(direction, x, y), then, other)


def select(condition: Any, then: Any, other: Any) -> Any:
    """Return ``then`` where a condition is true, and ``other``, of its shape and dtype, elsewhere.

    Unlike that of all other code it converts nothing: a weak cotangent stays one.
    """
    return emit_one("stablehlo.select", (condition, then, other), as_value(then).aval)


def nothing(op: Any, *_: Any) -> list[None]:
    """Return no cotangents: the operation is constant wherever it is differentiable."""
    return [None for _ in op.inputs()]
