"""Rules of what all elements up to each one come to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.tracing.elementwise import nary
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.reductions import cumulative
from devrt.tracing.shapes import concatenate, reverse, slice_in_dim

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
    size = x.aval.shape[dimension]
    later = slice_in_dim(x, distance, size, dimension)
    joined = nary(name, later, slice_in_dim(x, 0, size - distance, dimension))
    return concatenate([slice_in_dim(x, 0, distance, dimension), joined], dimension)


RULES: dict[str, Rule] = {"devrt.cumulative": _cumulative}
