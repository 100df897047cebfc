"""Operations on windows that move over dimensions: convolutions and reductions of windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from devrt.tracing.attributes import Dense, Literal
from devrt.tracing.aval import shaped
from devrt.tracing.contractions import precision_config
from devrt.tracing.trace import as_value, emit, emit_one, trace_flat

__all__ = [
    "ConvDimensions",
    "Window",
    "convolution",
    "padding_attribute",
    "reduce_window",
    "spread",
]

Pairs = Sequence[Sequence[int]]


class Window(NamedTuple):
    """How a window moves over dimensions.

    Attributes
    ----------
    sizes, strides : tuple of int
        Its extents, and how far it moves at a time.
    padding : tuple of pairs
        What is added before and after each dimension; what is negative is taken away.
    base_dilation, dilation : tuple of int
        The distance between elements of the operand, and between those of the window.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    base_dilation: tuple[int, ...]
    dilation: tuple[int, ...]

    def positions(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return how many places a window has along each dimension of a shape."""
        return tuple(
            max(0, (low + high + spread(n, base) - spread(size, apart)) // stride + 1)
            for n, size, stride, (low, high), base, apart in zip(shape, *self, strict=True)
        )


def padding_attribute(padding: Pairs) -> Dense:
    """Return the padding of each dimension as a tensor."""
    return Dense(np.array(padding, np.int64).reshape(len(padding), 2))


def spread(size: int, distance: int) -> int:
    """Return how far elements reach that lie some distance apart."""
    return (size - 1) * distance + 1 if size else 0


class ConvDimensions(NamedTuple):
    """The dimensions of a convolution's operands and result.

    Attributes
    ----------
    lhs : tuple of int
        Batch, feature, then spatial dimensions.
    rhs : tuple of int
        Output feature, input feature, then spatial dimensions.
    out : tuple of int
        Batch, feature, then spatial dimensions.
    """

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]

    def mlir(self) -> str:
        """Return the attribute's text."""
        sides = (_layout(dims, names) for dims, names in zip(self, ("bf", "oi", "bf"), strict=True))
        return "#stablehlo.conv<{}x{}->{}>".format(*sides)


def _layout(dims: Sequence[int], names: str) -> str:
    order: list[str] = [""] * len(dims)
    for i, dim in enumerate(dims):
        order[dim] = names[i] if i < 2 else str(i - 2)
    return f"[{', '.join(order)}]"


def convolution(
    x: Any,
    kernel: Any,
    dimensions: ConvDimensions,
    window: Window,
    *,
    feature_groups: int = 1,
    batch_groups: int = 1,
    precision: Sequence[str] = ("default", "default"),
    dtype: np.dtype[Any] | None = None,
) -> Any:
    """Return a convolution of values of one dtype; the caller has checked the shapes.

    ``window`` is of the spatial dimensions.
    """
    x, kernel = as_value(x), as_value(kernel)
    shape = [0] * len(x.aval.shape)
    shape[dimensions.out[0]] = x.aval.shape[dimensions.lhs[0]] // batch_groups
    shape[dimensions.out[1]] = kernel.aval.shape[dimensions.rhs[0]]
    places = window.positions([x.aval.shape[d] for d in dimensions.lhs[2:]])
    for dim, size in zip(dimensions.out[2:], places, strict=True):
        shape[dim] = size
    attributes = {
        "window_strides": window.strides,
        "padding": padding_attribute(window.padding),
        "lhs_dilation": window.base_dilation,
        "rhs_dilation": window.dilation,
        "window_reversal": (False,) * len(places) or Literal("array<i1>"),
        "dimension_numbers": dimensions,
        "feature_group_count": feature_groups,
        "batch_group_count": batch_groups,
        "precision_config": precision_config(precision),
    }
    result = shaped(tuple(shape), dtype or x.aval.dtype)
    return emit_one("stablehlo.convolution", (x, kernel), result, attributes)


def reduce_window(
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    initials: Sequence[Any],
    window: Window,
) -> list[Any]:
    """Return values of one shape, reduced together at each place of a window.

    ``function`` takes the scalars of two sides, as that of `reduce_by` does.
    """
    values = [as_value(x) for x in operands]
    starts = [as_value(x) for x in initials]
    scalars = [shaped((), value.aval.dtype) for value in values]
    region = trace_flat(function, [*scalars, *scalars], "reduce_window")
    shape = window.positions(values[0].aval.shape)
    attributes = {
        "window_dimensions": window.sizes,
        "window_strides": window.strides,
        "base_dilations": window.base_dilation,
        "window_dilations": window.dilation,
        "padding": padding_attribute(window.padding),
    }
    results = [shaped(shape, value.aval.dtype) for value in values]
    return emit("stablehlo.reduce_window", [*values, *starts], results, attributes, (region,))
