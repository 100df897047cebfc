"""Products that sum over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from devrt.tracing.attributes import Literal
from devrt.tracing.aval import shaped
from devrt.tracing.trace import as_value, emit_one

__all__ = ["DotDimensions", "dot_general", "precision_config"]

_PRECISIONS = {"default": "DEFAULT", "high": "HIGH", "highest": "HIGHEST"}


class DotDimensions(NamedTuple):
    """Which dimensions of two operands go together."""

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_batching: tuple[int, ...] = ()
    rhs_batching: tuple[int, ...] = ()

    def mlir(self) -> str:
        """Return the attribute's text."""
        names = "lhs_batching", "rhs_batching", "lhs_contracting", "rhs_contracting"
        given = ((name, getattr(self, name)) for name in names)
        parts = [f"{name}_dimensions = {list(dims)}" for name, dims in given if dims]
        return f"#stablehlo.dot<{', '.join(parts)}>"


def precision_config(precision: Sequence[str]) -> Literal:
    """Return the attribute for the precision of each operand: default, high or highest."""
    levels = ", ".join(f"#stablehlo<precision {_PRECISIONS[each]}>" for each in precision)
    return Literal(f"[{levels}]")


def dot_general(
    x: Any,
    y: Any,
    dimensions: DotDimensions,
    *,
    precision: Sequence[str] = ("default", "default"),
    dtype: np.dtype[Any] | None = None,
) -> Any:
    """Return the product of two values of one dtype, summed over the contracting dimensions.

    The result has the batching dimensions, then the rest of ``x``, then the rest of ``y``. It is of
    ``dtype``, by default the operands'. ``precision`` of each: default, high or highest.
    """
    x, y = as_value(x), as_value(y)
    lc, rc, lb, rb = (set(dims) for dims in dimensions)
    shape = (
        *(x.aval.shape[i] for i in dimensions.lhs_batching),
        *(n for i, n in enumerate(x.aval.shape) if i not in lc | lb),
        *(n for i, n in enumerate(y.aval.shape) if i not in rc | rb),
    )
    attributes = {
        "dot_dimension_numbers": dimensions,
        "precision_config": precision_config(precision),
    }
    is_weak = x.aval.weak_type and y.aval.weak_type
    result = shaped(shape, dtype or x.aval.dtype, is_weak and dtype is None)
    return emit_one("stablehlo.dot_general", (x, y), result, attributes)
