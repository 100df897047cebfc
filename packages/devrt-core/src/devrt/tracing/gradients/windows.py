"""Rules of reductions of windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.tracing.aval import shaped
from devrt.tracing.elementwise import compare
from devrt.tracing.gradients.reductions import function_of
from devrt.tracing.gradients.rules import add, select
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.reductions import scalar_region
from devrt.tracing.trace import constant, emit, emit_one, trace_flat
from devrt.tracing.windows import Window, reduce_window, spread

__all__ = ["RULES"]


def _reduce_window(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    function = function_of(op.regions[0])
    if len(op.operands) != 2 or function not in (_ADD, _MAX, _MIN):
        raise walk.refuse(op, "it reduces windows by a function other than add, max and min")
    if function == _ADD:
        return [_sums(op, given[0]), None]
    spaced = (*op.attributes["base_dilations"], *op.attributes["window_dilations"])
    if any(distance != 1 for distance in spaced):
        raise walk.refuse(op, "it reduces windows with gaps to their largest or smallest")
    return [_chosen(op, given[0], "GE" if function == _MAX else "LE"), None]


_ADD, _MAX, _MIN = "stablehlo.add", "stablehlo.maximum", "stablehlo.minimum"


def _sums(op: Op, g: Any) -> Any:
    """Return for each element the sum of the cotangents of all windows that it lies in."""
    x, parts = op.operands[0], op.attributes
    reach = [
        spread(n, d)
        for n, d in zip(parts["window_dimensions"], parts["window_dilations"], strict=True)
    ]
    padding = []
    for i, (low, _) in enumerate(parts["padding"].array.tolist()):
        before = reach[i] - 1 - low
        needed = spread(x.aval.shape[i], parts["base_dilations"][i]) - 1 + reach[i]
        padding.append(
            (before, needed - before - spread(g.aval.shape[i], parts["window_strides"][i]))
        )
    window = Window(
        parts["window_dimensions"],
        parts["base_dilations"],
        tuple(padding),
        parts["window_strides"],
        parts["window_dilations"],
    )
    return reduce_window(lambda a, b: (add(a, b),), (g,), (constant(0, g.aval.dtype),), window)[0]


def _chosen(op: Op, g: Any, direction: str) -> Any:
    """Return the cotangent of each window at the element that it chose."""
    x = op.operands[0]
    scalar = shaped((), x.aval.dtype)
    choice = trace_flat(lambda a, b: (compare(direction, a, b),), (scalar, scalar), "select")
    attributes = {
        name: op.attributes[name] for name in ("window_dimensions", "window_strides", "padding")
    }
    regions = (choice, scalar_region("add", g.aval.dtype))
    zero, result = constant(0, g.aval.dtype), shaped(x.aval.shape, g.aval.dtype)
    return emit_one("stablehlo.select_and_scatter", (x, g, zero), result, attributes, regions)


def _select_and_scatter(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    """Read the cotangents at the elements that windows choose."""
    x, _source, _ = op.operands
    direction = op.regions[0].ops[0].attributes["comparison_direction"].word
    is_largest = direction == "GE"
    worst = constant(-np.inf if is_largest else np.inf, x.aval.dtype)
    starts = [worst, constant(0, given[0].aval.dtype)]
    ones = (1,) * x.aval.ndim
    attributes = {**op.attributes, "base_dilations": ones, "window_dilations": ones}

    def better(x1: Any, g1: Any, x2: Any, g2: Any) -> list[Any]:
        keeps = compare(direction, x1, x2)
        return [select(keeps, x1, x2), select(keeps, g1, g2)]

    values = [x, given[0]]
    scalars = [shaped((), value.aval.dtype) for value in values]
    region = trace_flat(better, [*scalars, *scalars], "chosen")
    results = [shaped(op.operands[1].aval.shape, value.aval.dtype) for value in values]
    found = emit("stablehlo.reduce_window", [*values, *starts], results, attributes, (region,))
    return [None, found[1], None]


RULES: dict[str, Rule] = {
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.select_and_scatter": _select_and_scatter,
}
