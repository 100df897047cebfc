"""Rules of convolutions: each operand's cotangent is a convolution of the other one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt.tracing.aval import shaped
from devrt.tracing.conversions import convert
from devrt.tracing.gradients.walk import Rule, Walk
from devrt.tracing.ir import Op
from devrt.tracing.shapes import reshape, reverse, transpose
from devrt.tracing.trace import emit_one
from devrt.tracing.windows import padding_attribute, spread

__all__ = ["RULES"]

Pairs = list[tuple[int, int]]


class _Sizes:
    """How far the operands and the result of a convolution reach, by spatial dimension."""

    def __init__(self, op: Op, g: Any) -> None:
        x, kernel = op.operands
        dims, parts = op.attributes["dimension_numbers"], op.attributes
        sides = (
            (x, dims.lhs, parts["lhs_dilation"]),
            (kernel, dims.rhs, parts["rhs_dilation"]),
            (g, dims.out, parts["window_strides"]),
        )
        self.x, self.kernel, self.out = (
            [spread(value.aval.shape[d], gap) for d, gap in zip(spec[2:], gaps, strict=True)]
            for value, spec, gaps in sides
        )
        self.low = [low for low, _ in parts["padding"].array.tolist()]

    def padding_for_x(self) -> Pairs:
        """Return the padding of the result's cotangent."""
        before = [k - 1 - low for k, low in zip(self.kernel, self.low, strict=True)]
        sides = zip(self.x, self.kernel, self.out, before, strict=True)
        return [(first, n + k - 1 - m - first) for n, k, m, first in sides]

    def padding_for_kernel(self) -> Pairs:
        """Return the padding of the operand, which the cotangent moves over."""
        sides = zip(self.x, self.kernel, self.out, self.low, strict=True)
        return [(low, m - n + k - low - 1) for n, k, m, low in sides]


def _convolution(op: Op, given: Sequence[Any], walk: Walk) -> list[Any]:
    x, kernel = op.operands
    g, sizes = convert(given[0], x.aval.dtype), _Sizes(op, given[0])
    return [
        _of_x(op, g, sizes) if x in walk.active else None,
        _of_kernel(op, g, sizes) if kernel in walk.active else None,
    ]


def _of_x(op: Op, g: Any, sizes: _Sizes) -> Any:
    x, kernel = op.operands
    parts, dims = op.attributes, op.attributes["dimension_numbers"]
    features, batches = parts["feature_group_count"], parts["batch_group_count"]
    groups = max(features, batches)
    if groups > 1:
        kernel = _moved(_divided(kernel, dims.rhs[0], groups), dims.rhs[0], dims.rhs[1])
    mirrored = (dims.rhs[1], dims.rhs[0], *dims.rhs[2:])
    attributes = {
        **parts,
        "window_strides": parts["lhs_dilation"],
        "padding": padding_attribute(sizes.padding_for_x()),
        "lhs_dilation": parts["window_strides"],
        "dimension_numbers": type(dims)(dims.out, mirrored, dims.lhs),
        "feature_group_count": groups,
        "batch_group_count": 1,
    }
    shape = list(x.aval.shape)
    shape[dims.lhs[0]] //= batches
    shape[dims.lhs[1]] *= batches
    kernel = reverse(kernel, dims.rhs[2:])
    result = shaped(tuple(shape), x.aval.dtype)
    found = emit_one(op.name, (g, kernel), result, attributes)
    if batches > 1:
        found = _moved(_divided(found, dims.lhs[1], batches), dims.lhs[1], dims.lhs[0])
    return found


def _of_kernel(op: Op, g: Any, sizes: _Sizes) -> Any:
    x, kernel = op.operands
    parts, dims = op.attributes, op.attributes["dimension_numbers"]
    swapped = ((spec[1], spec[0], *spec[2:]) for spec in (dims.lhs, dims.out, dims.rhs))
    attributes = {
        **parts,
        "window_strides": parts["rhs_dilation"],
        "padding": padding_attribute(sizes.padding_for_kernel()),
        "rhs_dilation": parts["window_strides"],
        "dimension_numbers": type(dims)(*swapped),
        "feature_group_count": parts["batch_group_count"],
        "batch_group_count": parts["feature_group_count"],
    }
    result = shaped(kernel.aval.shape, x.aval.dtype)
    return emit_one(op.name, (x, g), result, attributes)


def _divided(x: Any, dimension: int, count: int) -> Any:
    """Return a value with a dimension as two, of which the first is of a size."""
    shape = list(x.aval.shape)
    shape[dimension : dimension + 1] = [count, shape[dimension] // count]
    return reshape(x, tuple(shape))


def _moved(x: Any, source: int, target: int) -> Any:
    """Return a value with a dimension joined to another one, which is counted without it."""
    order = [i for i in range(x.aval.ndim) if i != source]
    shape = [x.aval.shape[i] for i in order]
    shape[target] *= x.aval.shape[source]
    order.insert(target, source)
    return reshape(transpose(x, order), tuple(shape))


RULES: dict[str, Rule] = {"stablehlo.convolution": _convolution}
