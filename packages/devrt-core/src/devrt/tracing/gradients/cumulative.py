"""Rules of what all elements up to each one come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.tracing.elementwise import nary
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.reductions import cumulative
from devrt.tracing.shapes import concatenate, reverse, slice_

__all__ = ["RULES"]


def _cumulative(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    name, dimension = op.attributes["name"], op.attributes["dimension"]
    is_reversed = op.attributes["reverse"]
    if name == "add":
        return [cumulative("add", given[0], 0, dimension, reverse=not is_reversed)]

    def doubling(x: Any) -> list[Any]:
        x = reverse(x, [dimension]) if is_reversed else x
        distance = 1
        while distance < x.aval.shape[dimension]:
            x = _joined(name, x, dimension, distance)
            distance *= 2
        return [reverse(x, [dimension]) if is_reversed else x]

    return walk.through(doubling, op.operands, given)


def _joined(name: str, x: Any, dimension: int, distance: int) -> Any:
    """Return each element joined with the one some distance before it, if there is one."""
    rank, size = x.aval.ndim, x.aval.shape[dimension]
    none = (0,) * rank
    at = tuple(distance if i == dimension else 0 for i in range(rank))
    until = tuple(size - distance if i == dimension else n for i, n in enumerate(x.aval.shape))
    head_end = tuple(distance if i == dimension else n for i, n in enumerate(x.aval.shape))
    joined = nary(name, slice_(x, at, x.aval.shape), slice_(x, none, until))
    return concatenate([slice_(x, none, head_end), joined], dimension)


RULES: dict[str, Rule] = {"devrt.cumulative": _cumulative}
