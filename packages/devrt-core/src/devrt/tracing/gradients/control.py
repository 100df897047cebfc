"""Rules of branches, loops, and composites that stand for a function of the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.tracing.aval import shaped
from devrt.tracing.control import case, scan, trace_body
from devrt.tracing.gradients.replay import alias, replay
from devrt.tracing.gradients.rules import add, nothing, zeros, zeros_if_none
from devrt.tracing.gradients.walk import Rule, Walk, is_inexact
from devrt.tracing.ir import Op
from devrt.tracing.trace import as_value, current_graph, emit, trace_flat

__all__ = ["RULES"]


def _case(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    """Compute the chosen branch once more, and go back through it."""
    taken = dict.fromkeys(
        value for region in op.regions for value in region.captures if value in walk.active
    )
    cotangents = [
        zeros(value) if g is None and is_inexact(value) else g
        for g, value in zip(given, op.results, strict=True)
    ]

    def pulled(region: Any) -> Any:
        def branch() -> list[Any]:
            results, ops = replay(region, ())
            inputs = [as_value(value) for value in taken]
            inner = [None if g is None else as_value(g) for g in cotangents]
            found = walk.nested().pull(ops, results, inner, inputs)
            return zeros_if_none(found, inputs)

        return trace_flat(branch, (), "branch")

    found = case(op.operands[0], [pulled(region) for region in op.regions])
    by_value = dict(zip(taken, found, strict=True))
    return [by_value.pop(value, None) for value in op.inputs()]


def _while(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    raise walk.refuse(
        op,
        "the number of steps is not known to the compiler, so that nothing can keep what each one "
        "computed. devrt.lax.scan, and devrt.lax.fori_loop with Python integers as bounds, have "
        "one",
    )


def _scan(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    """Go back through the steps of a loop, from the last to the first.

    The loop keeps the carries that each step began with; the rest of a step is computed once more.
    """
    stacks = _carries_of_steps(op)
    loop = _Loop(op, walk)
    given = [*given, *[None] * (loop.count - len(given))]
    shown = [g for g in given[loop.carries : loop.count] if g is not None]
    has_cotangent = [g is not None for g in given[loop.carries : loop.count]]
    ends = zip(given[: loop.carries], op.results[: loop.carries], strict=True)
    last = [zeros(v) if g is None else g for g, v in ends if is_inexact(v)]
    begin = [*(zeros(value) for value in loop.active_consts), *last]
    xs = [*stacks, *loop.xs, *shown]

    def step(*state: Any) -> list[Any]:
        return loop.back(state, has_cotangent)

    avals = [_element(value) for value in xs]
    sets = [value.varying for value in xs]
    body = trace_body(step, begin, avals, sets, name="back")
    found = iter(scan(body, begin, xs, loop.length, reverse=not op.attributes["reverse"]))
    consts = [next(found) if value in walk.active else None for value in loop.consts]
    carries = [next(found) if is_inexact(value) else None for value in loop.begin]
    elements = [next(found) if value in walk.active else None for value in loop.xs]
    return [*consts, *carries, *elements]


def _element(x: Any) -> Any:
    return shaped(x.aval.shape[1:], x.aval.dtype)


class _Loop:
    """A loop that is walked: its operands, and one step of it backwards."""

    def __init__(self, op: Op, walk: Walk) -> None:
        consts, carries = op.attributes["consts"], op.attributes["carries"]
        self.walk, self.body, self.length = walk, op.attributes["body"], op.attributes["length"]
        self.consts = op.operands[:consts]
        self.begin = op.operands[consts : consts + carries]
        self.xs = op.operands[consts + carries :]
        self.carries = carries
        self.count = len(op.results)
        self.active_consts = [value for value in self.consts if value in walk.active]

    def back(self, state: Sequence[Any], has_cotangent: Sequence[bool]) -> list[Any]:
        """Return the cotangents of constants so far and of carries, then those of the elements.

        ``state`` has cotangents of constants and carries, then carries and elements of the step,
        then the cotangents of what it gave.
        """
        rest = iter(state)
        sums = [next(rest) for _ in self.active_consts]
        after = [next(rest) if is_inexact(value) else None for value in self.begin]
        carries = [alias(next(rest)) for _ in self.begin]
        elements = [alias(next(rest)) for _ in self.xs]
        shown = [next(rest) if each else None for each in has_cotangent]
        fixed = [alias(as_value(value)) for value in self.consts]
        results, ops = replay(self.body, [*fixed, *carries, *elements])
        pairs = list(zip(fixed, self.consts, strict=True))
        inputs = [
            *(mine for mine, value in pairs if value in self.walk.active),
            *(value for value in carries if is_inexact(value)),
            *(m for m, v in zip(elements, self.xs, strict=True) if v in self.walk.active),
        ]
        cotangents = [*after, *shown]
        found = zeros_if_none(self.walk.nested().pull(ops, results, cotangents, inputs), inputs)
        new = [add(old, more) for old, more in zip(sums, found, strict=False)]
        return [*new, *found[len(sums) :]]


def _carries_of_steps(op: Op) -> Sequence[Any]:
    """Return the carries that each step of a loop began with, stacked.

    The loop is replaced by one that gives them too, in its place among the operations.
    """
    if "stacked" in op.attributes:
        return op.results[op.attributes["stacked"] :]
    consts, count = op.attributes["consts"], op.attributes["carries"]
    begin, xs = op.operands[consts : consts + count], op.operands[consts + count :]
    fixed, body = op.operands[:consts], op.attributes["body"]

    def step(*state: Any) -> list[Any]:
        given = [as_value(value) for value in fixed]
        results, _ = replay(body, [*given, *state], with_effects=True)
        return [*results, *state[:count]]

    avals, sets = [_element(x) for x in xs], [x.varying for x in xs]
    again = trace_body(step, begin, avals, sets, name=body.name)
    reverse, length = op.attributes["reverse"], op.attributes["length"]
    made = scan(again, begin, xs, length, reverse=reverse)
    stacks = made[len(op.results) :]
    graph = current_graph()
    if op.results and op.results[0].graph is graph:
        new = graph.ops.pop()
        op.attributes = {**new.attributes, "stacked": len(op.results)}
        op.operands, op.regions = new.operands, new.regions
        op.results = [*op.results, *stacks]
    return stacks


def _checkpoint(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    """Compute a function once more, from its operands and what it keeps.

    The last results of the operation are what it keeps. The barrier keeps the compiler from taking
    what else the first computation has.
    """
    (region,) = op.regions
    taken = [*op.operands, *region.captures]
    first = len(op.results) - op.attributes["kept"]
    kept = op.results[first:]
    cotangents = [g for g in given if g is not None]
    values = [*taken, *kept, *cotangents]
    made = emit("stablehlo.optimization_barrier", values, [value.aval for value in values])
    rest = iter(made[len(taken) :])
    there = dict(zip(region.results[first:], rest, strict=False)) if kept else {}
    fresh = [next(rest) if g is not None else None for g in given]
    known = dict(zip(region.captures, made[len(op.operands) :], strict=False))
    results, ops = replay(region, made[: len(op.operands)], known, there)
    return walk.nested().pull(ops, results, fresh, made[: len(taken)])


def _custom(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    """Call the user's rule."""
    (region,) = op.regions
    found = op.attributes["backward"](op.operands, given, op.results)
    return [*found, *(None for _ in region.captures)]


RULES: dict[str, Rule] = {
    "stablehlo.case": _case,
    "stablehlo.while": _while,
    "devrt.scan": _scan,
    "devrt.stop_gradient": nothing,
    "devrt.checkpoint": _checkpoint,
    "devrt.custom_vjp": _custom,
}
