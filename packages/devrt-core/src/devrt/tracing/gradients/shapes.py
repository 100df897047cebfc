"""Rules of operations that move elements."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from devrt.tracing.gathering import dynamic_slice, dynamic_update_slice
from devrt.tracing.gradients.rules import sub, zeros
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.reductions import reduce
from devrt.tracing.shapes import pad, reshape, reverse, slice_, slice_in_dim, transpose
from devrt.tracing.trace import constant

__all__ = ["RULES", "total"]


def total(x: Any, dimensions: Sequence[int]) -> Any:
    """Return the sum over some dimensions."""
    return reduce("add", x, constant(0, x.aval.dtype), list(dimensions))


def _broadcast(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    (g,), (x,) = given, op.operands
    kept = op.attributes["broadcast_dimensions"]
    repeated = [
        i
        for i, n in enumerate(g.aval.shape)
        if i not in kept or (x.aval.shape[kept.index(i)] == 1 and n != 1)
    ]
    return [reshape(total(g, repeated), x.aval.shape)]


def _reshape(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    return [reshape(given[0], op.operands[0].aval.shape)]


def _transpose(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    order = op.attributes["permutation"]
    return [transpose(given[0], [order.index(i) for i in range(len(order))])]


def _reverse(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    return [reverse(given[0], op.attributes["dimensions"])]


def _slice(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    (g,), (x,) = given, op.operands
    low, strides = op.attributes["start_indices"], op.attributes["strides"]
    between = tuple(stride - 1 for stride in strides)
    high = tuple(
        size - start - (count + max(0, count - 1) * gap)
        for size, start, count, gap in zip(x.aval.shape, low, g.aval.shape, between, strict=True)
    )
    return [pad(g, constant(0, g.aval.dtype), low, high, between)]


def _pad(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    (g,), (x, fill) = given, op.operands
    low = op.attributes["edge_padding_low"]
    high = op.attributes["edge_padding_high"]
    strides = tuple(gap + 1 for gap in op.attributes["interior_padding"])
    # Negative widths took elements away: zeros come back in their place.
    zero = constant(0, g.aval.dtype)
    whole = pad(g, zero, *(tuple(max(0, -n) for n in widths) for widths in (low, high)))
    starts = tuple(max(0, n) for n in low)
    ends = tuple(
        start + (n - 1) * stride + 1 if n else start
        for start, n, stride in zip(starts, x.aval.shape, strides, strict=True)
    )
    inner = slice_(whole, starts, ends, strides)
    if fill not in walk.active:
        return [inner, None]
    every = range(len(g.aval.shape))
    return [inner, sub(total(g, every), total(inner, every))]


def _concatenate(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    (g,), dimension = given, op.attributes["dimension"]
    sizes = [value.aval.shape[dimension] for value in op.operands]
    ends = itertools.accumulate(sizes, initial=0)
    return [slice_in_dim(g, start, end, dimension) for start, end in itertools.pairwise(ends)]


def _dynamic_slice(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    x, *starts = op.operands
    return [dynamic_update_slice(zeros(x), given[0], starts), *[None] * len(starts)]


def _dynamic_update_slice(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    (g,), (_x, update, *starts) = given, op.operands
    part = dynamic_slice(g, starts, update.aval.shape)
    return [dynamic_update_slice(g, zeros(update), starts), part, *[None] * len(starts)]


RULES: dict[str, Rule] = {
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.reshape": _reshape,
    "stablehlo.transpose": _transpose,
    "stablehlo.reverse": _reverse,
    "stablehlo.slice": _slice,
    "stablehlo.pad": _pad,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
}
