"""Rules of sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.tracing.aval import shaped
from devrt.tracing.gradients.gathering import add_at
from devrt.tracing.gradients.replay import replay
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.promotion import named
from devrt.tracing.shapes import iota
from devrt.tracing.sorting import sort
from devrt.tracing.trace import emit, trace_flat

__all__ = ["RULES"]


def _sort(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    """Sort the cotangents by where their elements came from."""
    dimension = op.attributes["dimension"]
    positions = iota(op.operands[0].aval.shape, dimension, named("int32"))
    order = _sorted_with(op, positions)
    shown = [g for g in given if g is not None]
    found = iter(sort([order, *shown], dimension)[1:])
    return [None if g is None else next(found) for g in given]


def _sorted_with(op: Op, payload: Any) -> Any:
    """Return a further operand in the order in which an operation sorts its own."""
    (region,), count = op.regions, len(op.operands)
    values = [*op.operands, payload]
    pairs = [shaped((), value.aval.dtype) for value in values for _ in (0, 1)]
    wider = trace_flat(lambda *sides: replay(region, sides[: 2 * count])[0], pairs, "sort")
    avals = [value.aval for value in values]
    return emit("stablehlo.sort", values, avals, op.attributes, (wider,))[-1]


def _top(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    return [add_at(op.operands[0].aval.shape, op.results[1], given[0])]


RULES: dict[str, Rule] = {"stablehlo.sort": _sort, "chlo.top_k": _top}
