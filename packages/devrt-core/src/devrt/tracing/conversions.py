"""Conversions of dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from devrt.tracing.aval import shaped
from devrt.tracing.ir import Value
from devrt.tracing.promotion import common_dtype, typed
from devrt.tracing.trace import NUMBERS, as_value, constant, emit_one

__all__ = ["convert", "promote"]


def convert(x: Any, dtype: np.dtype[Any], *, weak_type: bool = False) -> Any:
    """Return a value with another dtype; complex to real drops the imaginary part."""
    x = as_value(x)
    aval = x.aval
    if (aval.dtype is dtype or aval.dtype == dtype) and aval.weak_type == weak_type:
        return x
    if aval.dtype.kind == "c" and dtype.kind != "c" and dtype.kind != "b":
        x = emit_one("stablehlo.real", (x,), shaped(aval.shape, np.empty(0, aval.dtype).real.dtype))
    return emit_one("stablehlo.convert", (x,), shaped(aval.shape, dtype, weak_type))


def _alike(operands: tuple[Any, ...]) -> list[Any] | None:
    """Return operands as values, if they are values of one dtype already; else None."""
    first = operands[0]
    if not isinstance(first, Value):
        return None
    dtype, is_weak = first.aval.dtype, first.aval.weak_type
    for x in operands:
        if not isinstance(x, Value):
            return None
        if x.aval.dtype is not dtype or x.aval.weak_type is not is_weak:
            return None
    return [as_value(x) for x in operands]


def promote(
    *operands: Any, dtype: np.dtype[Any] | None = None, weak_type: bool = False
) -> list[Any]:
    """Return operands as values of the dtype that they have in common, or of ``dtype``.

    Shapes stay as they are.
    """
    if dtype is None and (values := _alike(operands)) is not None:
        return values
    target, is_weak = (
        (dtype, weak_type) if dtype is not None else common_dtype(frozenset(map(typed, operands)))
    )
    return [
        constant(x, target, weak_type=is_weak)
        if isinstance(x, NUMBERS) and not isinstance(x, np.generic)
        else convert(as_value(x), target, weak_type=is_weak)
        for x in operands
    ]
