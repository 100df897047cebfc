"""Along which manual axes values vary: what one device's value says of the others'.

A value varies along an axis if devices that differ in their positions along it may hold different
ones. What varies along no axis but those that an ``out_specs`` names may be returned by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devrt.tracing.ir import Graph, Value

__all__ = ["varying_of"]

Axes = frozenset[str]

_NONE: Axes = frozenset()

_SAME_ON_ALL = {"stablehlo.all_reduce", "devrt.unvary"}
"""Operations whose result is equal along their axes."""

_OTHER_ON_EACH = {
    "devrt.pvary",
    "stablehlo.all_gather",
    "stablehlo.all_to_all",
    "stablehlo.collective_permute",
    "stablehlo.reduce_scatter",
}
"""Operations whose result varies along their axes; a gathered one by rule, as in JAX."""


def varying_of(
    name: str,
    operands: Sequence[Value],
    attributes: Mapping[str, Any],
    regions: Sequence[Graph],
    count: int,
) -> list[Axes]:
    """Return for each of an operation's ``count`` results the axes along which it varies."""
    rule = _RULES.get(name)
    if rule is not None:
        return rule(operands, regions)
    taken = _union(operands)
    if name in _SAME_ON_ALL:
        return [taken - _axes(attributes)] * count
    if name in _OTHER_ON_EACH:
        return [taken | _axes(attributes)] * count
    if name.startswith("devrt.") and regions:
        return _call(regions[0], [value.varying for value in operands])
    captured = _NONE.union(*(_union(region.captures) for region in regions))
    return [taken | captured] * count


def axes_of_attributes(attributes: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    """Return the axes of a collective, and whether its groups take all of them."""
    groups = attributes.get("replica_groups") or attributes.get("source_target_pairs")
    if groups is None:
        return tuple(attributes["axes"]), True
    return groups.axes, getattr(groups, "groups", None) is None


def _axes(attributes: Mapping[str, Any]) -> Axes:
    axes, is_whole = axes_of_attributes(attributes)
    return frozenset(axes) if is_whole else _NONE


def _union(values: Any) -> Axes:
    return _NONE.union(*(value.varying for value in values))


def _call(graph: Graph, varying: Sequence[Axes]) -> list[Axes]:
    """Return what varies of the results of a graph whose parameters vary along some axes."""
    for outer, inner in graph.captures.items():
        inner.varying = outer.varying | graph.unchecked
    for parameter, axes in zip(graph.parameters, varying, strict=True):
        parameter.varying = axes | graph.unchecked
    for op in graph.ops:
        found = varying_of(op.name, op.operands, op.attributes, op.regions, len(op.results))
        for result, axes in zip(op.results, found, strict=True):
            result.varying = axes | graph.unchecked
    return [value.varying for value in graph.results]


def _while(operands: Sequence[Value], regions: Sequence[Graph]) -> list[Axes]:
    condition, body = regions
    carried = [value.varying for value in operands]
    while True:
        ends = _union_of(_call(condition, carried))  # devices may leave the loop at other times
        after = _call(body, carried)
        wider = [a | b | ends for a, b in zip(carried, after, strict=True)]
        if wider == carried:
            return carried
        carried = wider


def _case(operands: Sequence[Value], regions: Sequence[Graph]) -> list[Axes]:
    chosen = operands[0].varying
    branches = [_call(region, []) for region in regions]
    return [chosen.union(*each) for each in zip(*branches, strict=True)]


def _manual(operands: Sequence[Value], regions: Sequence[Graph]) -> list[Axes]:
    (body,) = regions
    bound = frozenset(body.scope.axes) if body.scope is not None else _NONE
    inside = [
        value.varying | (parameter.varying & bound)
        for value, parameter in zip(operands, body.parameters, strict=True)
    ]
    return [axes - bound for axes in _call(body, inside)]


def _union_of(sets: Sequence[Axes]) -> Axes:
    return _NONE.union(*sets)


def _barrier(operands: Sequence[Value], regions: Sequence[Graph]) -> list[Axes]:
    return [value.varying for value in operands]


_RULES: dict[str, Callable[[Sequence[Value], Sequence[Graph]], list[Axes]]] = {
    "sdy.manual_computation": _manual,
    "stablehlo.case": _case,
    "stablehlo.optimization_barrier": _barrier,
    "stablehlo.while": _while,
}
