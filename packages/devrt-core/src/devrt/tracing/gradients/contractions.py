"""Rules of products that sum over dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.tracing.aval import shaped
from devrt.tracing.contractions import DotDimensions
from devrt.tracing.conversions import convert
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.shapes import transpose
from devrt.tracing.trace import emit_one

__all__ = ["RULES"]


def _dot(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    (g,), (x, y) = given, op.operands
    dims = op.attributes["dot_dimension_numbers"]
    mirrored = DotDimensions(
        dims.rhs_contracting, dims.lhs_contracting, dims.rhs_batching, dims.lhs_batching
    )
    rank = len(x.aval.shape)
    free = [i for i in range(rank) if i not in (*dims.lhs_contracting, *dims.lhs_batching)]
    batch = range(len(dims.lhs_batching))
    of_x = range(len(batch), len(batch) + len(free))
    of_y = range(len(batch) + len(free), len(g.aval.shape))
    return [
        _operand(op, g, x, y, dims, of_y) if x in walk.active else None,
        _operand(op, g, y, x, mirrored, of_x) if y in walk.active else None,
    ]


def _operand(op: Op, g: Any, x: Any, y: Any, dims: DotDimensions, of_y: Sequence[int]) -> Any:
    """Return the cotangent of an operand: the result's, contracted with the other operand.

    ``dims`` are seen from ``x``; ``of_y`` are the dimensions of the result that come from ``y``.
    """
    y_rank, x_rank = len(y.aval.shape), len(x.aval.shape)
    y_free = [i for i in range(y_rank) if i not in (*dims.rhs_contracting, *dims.rhs_batching)]
    x_free = [i for i in range(x_rank) if i not in (*dims.lhs_contracting, *dims.lhs_batching)]
    batch = tuple(range(len(dims.lhs_batching)))
    product = DotDimensions(tuple(of_y), tuple(y_free), batch, dims.rhs_batching)
    # The contracted dimensions of y come in its own order.
    pairs = sorted(zip(dims.rhs_contracting, dims.lhs_contracting, strict=True))
    order = [*dims.lhs_batching, *x_free, *(mine for _, mine in pairs)]
    attributes = {**op.attributes, "dot_dimension_numbers": product}
    given = convert(g, y.aval.dtype)
    shape = tuple(x.aval.shape[i] for i in order)
    result = shaped(shape, g.aval.dtype)
    found = emit_one("stablehlo.dot_general", (given, y), result, attributes)
    found = transpose(found, [order.index(i) for i in range(x_rank)])
    return convert(found, x.aval.dtype)


RULES: dict[str, Rule] = {"stablehlo.dot_general": _dot}
