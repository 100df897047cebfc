"""Rules of reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from devrt.tracing.elementwise import compare
from devrt.tracing.gradients.rules import div, full, mul, select, zeros
from devrt.tracing.gradients.shapes import total
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Graph, Op
from devrt.tracing.shapes import broadcast_in_dim, pad, reshape, reverse, slice_, transpose
from devrt.tracing.trace import constant

__all__ = ["RULES", "function_of"]


def function_of(region: Graph) -> str:
    """Return the operation that a region of scalars consists of; empty if it is of several."""
    count = len(region.parameters)
    if len(region.ops) == 1 and list(region.ops[0].operands) == region.parameters and count == 2:
        return region.ops[0].name
    return ""


def _reduce(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    function, dimensions = function_of(op.regions[0]), op.attributes["dimensions"]
    if len(op.operands) == 2 and function in _OF_ONE:
        x, start = op.operands
        if start in walk.active:
            raise walk.refuse(op, "its initial value is differentiated by")
        return [_OF_ONE[function](given[0], x, op.results[0], dimensions), None]
    if len(op.operands) == 4:
        return _chosen(op, given, walk, dimensions)
    raise walk.refuse(op, "it reduces by a function of its own")


def _back(y: Any, shape: tuple[int, ...], dimensions: Sequence[int]) -> Any:
    """Return a reduced value repeated along the dimensions that it lost."""
    kept = [i for i in range(len(shape)) if i not in dimensions]
    return broadcast_in_dim(y, shape, kept)


def _of_sum(g: Any, x: Any, _: Any, dimensions: Sequence[int]) -> Any:
    return _back(g, x.aval.shape, dimensions)


def _of_extreme(g: Any, x: Any, y: Any, dimensions: Sequence[int]) -> Any:
    """Return equal parts for all elements that are the largest or smallest."""
    shape = x.aval.shape
    is_it = compare("EQ", x, _back(y, shape, dimensions))
    chosen = select(is_it, full(1, x), zeros(x))
    share = _back(div(g, total(chosen, dimensions)), shape, dimensions)
    # Where NaN is the largest nothing is equal to it: a select keeps 0 / 0 to itself.
    return select(is_it, share, zeros(share))


def _of_product(g: Any, x: Any, _: Any, dimensions: Sequence[int]) -> Any:
    """Return the product of all others for each element; zeros among them do no harm."""
    shape = x.aval.shape
    kept = [i for i in range(len(shape)) if i not in dimensions]
    order = [*kept, *dimensions]
    lines = tuple(shape[i] for i in kept)
    moved = transpose(x, order)
    flat = reshape(moved, (*lines, x.aval.size // max(1, math.prod(lines))))
    others = mul(_before(flat), reverse(_before(reverse(flat, [len(lines)])), [len(lines)]))
    back = transpose(reshape(others, moved.aval.shape), [order.index(i) for i in range(len(order))])
    return mul(back, _back(g, shape, dimensions))


def _before(x: Any) -> Any:
    """Return the product of the elements before each, along the last dimension."""
    found, distance = _moved(x, 1), 1
    while distance < x.aval.shape[-1]:
        found = mul(found, _moved(found, distance))
        distance *= 2
    return found


def _moved(x: Any, distance: int) -> Any:
    """Return elements moved along the last dimension, with ones where there are none."""
    rank, count = len(x.aval.shape), x.aval.shape[-1]
    low, none = (0,) * (rank - 1), (0,) * rank
    moved = pad(x, constant(1, x.aval.dtype), (*low, distance), none)
    return slice_(moved, none, (*x.aval.shape[:-1], count))


def _chosen(op: Op, given: Sequence[Any], walk: Walk, dimensions: Sequence[int]) -> list[Any]:
    """Return the cotangent of values that are reduced along with their positions."""
    x, positions, *starts = op.operands
    _, found = op.results
    if positions.aval.dtype.kind not in "iu" or any(start in walk.active for start in starts):
        raise walk.refuse(op, "it reduces by a function of its own")
    shape = x.aval.shape
    is_it = compare("EQ", positions, _back(found, shape, dimensions))
    back = _back(given[0], shape, dimensions)
    return [select(is_it, back, zeros(back)), None, None, None]


_OF_ONE = {
    "stablehlo.add": _of_sum,
    "stablehlo.maximum": _of_extreme,
    "stablehlo.minimum": _of_extreme,
    "stablehlo.multiply": _of_product,
}

RULES: dict[str, Rule] = {"stablehlo.reduce": _reduce}
