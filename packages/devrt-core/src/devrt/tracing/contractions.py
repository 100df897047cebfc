"""Products that sum over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.tracing.attributes import Literal
from devrt.tracing.aval import shaped
from devrt.tracing.frames import at_user_line
from devrt.tracing.trace import as_value, emit_one

__all__ = ["DotDimensions", "dot_general", "precision_config", "precision_of"]

_PRECISIONS = {
    **{name: name for name in ("default", "high", "highest")},
    **{"none": "default", "fastest": "default", "float32": "highest", "bfloat16": "default"},
    **{"bfloat16_3x": "high", "tensorfloat32": "high"},
}
"""The precisions of products by JAX's names for them."""


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
    levels = ", ".join(f"#stablehlo<precision {each.upper()}>" for each in precision)
    return Literal(f"[{levels}]")


def precision_of(precision: Any, operation: str) -> tuple[str, str]:
    """Return the precision of two operands: default, high or highest.

    One name, a pair of them, or members of an enumeration with such names; None is default.

    Raises
    ------
    InvalidArgumentError
        If it is none of these.
    """
    pair = precision if isinstance(precision, tuple | list) else (precision, precision)
    names = tuple(_PRECISIONS.get(str(getattr(each, "name", each)).lower(), "") for each in pair)
    if len(names) != 2 or "" in names:
        msg = (
            f"{operation}: the precision is default, high or highest, or a pair of them, not "
            f"{precision!r}{at_user_line()}."
        )
        raise InvalidArgumentError(msg, precision=precision)
    return names[0], names[1]


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
