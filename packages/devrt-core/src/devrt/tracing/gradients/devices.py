"""Rules of manual computations, and of operations between devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from devrt.tracing.collectives import (
    all_gather,
    all_reduce,
    all_to_all,
    axis_count,
    permute,
    pvary,
    reduce_scatter,
)
from devrt.tracing.gradients.reductions import function_of
from devrt.tracing.gradients.replay import replay
from devrt.tracing.gradients.rules import mul, zeros_if_none
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.manual import axes_in, manual_computation
from devrt.tracing.sdy import mesh_sizes
from devrt.tracing.trace import emit_one

__all__ = ["RULES"]


def _manual(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    (body,) = op.regions
    assert body.scope is not None
    into = [each.spec for each in op.attributes["in_shardings"].shardings]
    out = [each.spec for each in op.attributes["out_shardings"].shardings]
    shown = [i for i, g in enumerate(given) if g is not None]
    wanted = [i for i, value in enumerate(op.operands) if value in walk.active]
    axes, mesh, count = body.scope.axes, body.mesh, len(op.operands)

    def back(*parts: Any) -> tuple[list[Any], list[Any]]:
        results, ops = replay(body, parts[:count])
        inner = [None] * len(given)
        for i, part in zip(shown, parts[count:], strict=True):
            inner[i] = _share(part, results[i], out[i], axes, mesh)
        inputs = [parts[i] for i in wanted]
        found = zeros_if_none(walk.nested().pull(ops, results, inner, inputs), inputs)
        if not is_checked:  # each device has found its part of what all took whole
            found = [_summed(part, axes, into[i]) for part, i in zip(found, wanted, strict=True)]
        return found, [into[i] for i in wanted]

    is_checked = not body.unchecked.issuperset(axes)
    operands = [*op.operands, *(given[i] for i in shown)]
    specs = [*into, *(out[i] for i in shown)]
    found = manual_computation(mesh, axes, operands, specs, back, is_checked=is_checked)
    by_position = dict(zip(wanted, found, strict=True))
    return [by_position.get(i) for i in range(count)]


def _share(part: Any, result: Any, spec: Any, axes: Sequence[str], mesh: Any) -> Any:
    """Return one device's share of the cotangent of a result that all were trusted to agree on.

    Where it is known to be the same on all devices, nothing is shared.
    """
    trusted = (result.varying & set(axes)) - set(axes_in(spec))
    sizes = mesh_sizes(mesh)
    return mul(part, 1 / math.prod(sizes[a] for a in trusted)) if trusted else part


def _summed(part: Any, axes: Sequence[str], spec: Any) -> Any:
    whole = [axis for axis in axes if axis not in axes_in(spec)]
    return all_reduce("add", part, whole) if whole else part


def _groups(op: Op) -> Any:
    return op.attributes["replica_groups"]


def _reduced(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    groups = _groups(op)
    if function_of(op.regions[0]) != "stablehlo.add":
        raise walk.refuse(op, "of operations that reduce over devices only sums have one")
    # Where sums count as different on each device, so do their cotangents.
    if groups.groups is not None or op.results[0].varying.issuperset(groups.axes):
        return [all_reduce("add", given[0], groups.axes, groups.groups)]
    return [pvary(given[0], groups.axes)]


def _unvaried(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    """Give each device an equal share of the cotangent of what is known to be the same on all."""
    axes = op.attributes["axes"]
    if op.results[0].varying.issuperset(axes):
        return [given[0]]
    return [mul(pvary(given[0], axes), 1 / axis_count(axes))]


def _gathered(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    groups, dimension = _groups(op), op.attributes["all_gather_dim"]
    return [reduce_scatter("add", given[0], groups.axes, dimension, groups.groups)]


def _scattered(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    groups, dimension = _groups(op), op.attributes["scatter_dimension"]
    if function_of(op.regions[0]) != "stablehlo.add":
        raise walk.refuse(op, "of operations that reduce over devices only sums have one")
    return [all_gather(given[0], groups.axes, dimension, groups.groups)]


def _exchanged(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    groups = _groups(op)
    split, concat = op.attributes["split_dimension"], op.attributes["concat_dimension"]
    return [all_to_all(given[0], groups.axes, concat, split, groups.groups)]


def _permuted(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    sent = op.attributes["source_target_pairs"]
    return [permute(given[0], sent.axes, [(to, source) for source, to in sent.pairs])]


def _constrained(op: Op, given: Sequence[Any], _: Walk) -> list[Any]:
    return [emit_one(op.name, (given[0],), given[0].aval, op.attributes)]


RULES: dict[str, Rule] = {
    "devrt.unvary": _unvaried,
    "sdy.manual_computation": _manual,
    "sdy.sharding_constraint": _constrained,
    "stablehlo.all_reduce": _reduced,
    "stablehlo.all_gather": _gathered,
    "stablehlo.reduce_scatter": _scattered,
    "stablehlo.all_to_all": _exchanged,
    "stablehlo.collective_permute": _permuted,
}
