"""Sums and other functions of all elements, or of those along some axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.programs.eager import operation
from devrt.tracing import as_value

__all__ = ["sum"]


@operation(static=("axis", "keepdims"))
def sum(x: Any, axis: int | Sequence[int] | None = None, *, keepdims: bool = False) -> Any:
    """Return the sum over some axes."""
    x = as_value(x)
    axes = range(x.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    return tracing.reduce("add", x, 0, list(axes))
