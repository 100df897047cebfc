"""Operations on elements, one by one; operands are broadcast."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.tracing.attributes import Literal
from devrt.tracing.aval import shaped
from devrt.tracing.conversions import promote
from devrt.tracing.promotion import named
from devrt.tracing.shapes import broadcast_shapes, broadcast_to
from devrt.tracing.trace import NUMBERS, as_value, constant, emit_one

__all__ = ["binary", "broadcast", "clamp", "compare", "nary", "select", "unary"]


def broadcast(*operands: Any, operation: str = "this operation") -> list[Any]:
    """Return values broadcast to the shape they have in common."""
    values = [as_value(x) for x in operands]
    shape = values[0].aval.shape
    if all([value.aval.shape == shape for value in values]):  # the common case, first
        return values
    shape = broadcast_shapes(*(value.aval.shape for value in values), operation=operation)
    return [_spread(value, shape) for value in values]


def _spread(value: Any, shape: tuple[int, ...]) -> Any:
    return value if value.aval.shape == shape else broadcast_to(value, shape)


def unary(name: str, x: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """Return ``stablehlo.NAME`` of a value (or of another dialect, by its full name)."""
    x = as_value(x)
    aval = x.aval
    result = aval if dtype is None else shaped(aval.shape, dtype)
    return emit_one(name if "." in name else f"stablehlo.{name}", (x,), result)


def nary(name: str, *operands: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """Return ``stablehlo.NAME`` of operands of one dtype and any shapes that broadcast."""
    values = broadcast(*operands, operation=name)
    first = values[0].aval
    is_weak = all(value.aval.weak_type for value in values)
    result = shaped(first.shape, first.dtype if dtype is None else dtype, is_weak and dtype is None)
    return emit_one(name if "." in name else f"stablehlo.{name}", values, result)


def binary(name: str, x: Any, y: Any) -> Any:
    """Return ``stablehlo.NAME`` of two operands, promoted and broadcast."""
    return nary(name, *promote(x, y))


def compare(direction: str, x: Any, y: Any, *, is_total: bool = False) -> Any:
    """Return where ``x`` is EQ, NE, LT, LE, GT or GE to ``y``: bool; promoted and broadcast."""
    x, y = broadcast(*promote(x, y), operation=f"comparison {direction}")
    kind = x.aval.dtype.kind
    compared = "UNSIGNED" if kind in "bu" else "SIGNED" if kind == "i" else "FLOAT"
    if x.aval.dtype.name.startswith(("int", "uint")):
        compared = "UNSIGNED" if x.aval.dtype.name.startswith("u") else "SIGNED"
    attributes = {
        "comparison_direction": Literal(f"#stablehlo<comparison_direction {direction}>"),
        "compare_type": Literal(
            f"#stablehlo<comparison_type {'TOTALORDER' if is_total else compared}>"
        ),
    }
    return emit_one("stablehlo.compare", (x, y), shaped(x.aval.shape, named("bool")), attributes)


def select(condition: Any, x: Any, y: Any, operation: str = "select") -> Any:
    """Return elements of ``x`` where a bool is true, of ``y`` elsewhere; promoted and broadcast.

    ``operation`` is what errors call it.
    """
    x, y = promote(x, y)
    condition, x, y = broadcast(condition, x, y, operation=operation)
    result = shaped(x.aval.shape, x.aval.dtype, x.aval.weak_type and y.aval.weak_type)
    return emit_one("stablehlo.select", (condition, x, y), result)


def clamp(low: Any, x: Any, high: Any) -> Any:
    """Return ``x`` between two bounds of its dtype; each a scalar or of its shape."""
    x = as_value(x)
    bounds = [
        constant(b, x.aval.dtype) if isinstance(b, NUMBERS) else as_value(b) for b in (low, high)
    ]
    return emit_one("stablehlo.clamp", (bounds[0], x, bounds[1]), x.aval)
