"""Reductions of windows that move over dimensions, and the padding that they are given by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt import tracing, tree_util
from devrt.lax.checks import lax_operation, refuse, require
from devrt.lax.reductions import combined, initials
from devrt.tracing import Window, as_value

__all__ = ["pads_of", "padtype_to_pads", "reduce_window"]

Pads = tuple[tuple[int, int], ...]


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """Return the padding of each dimension for SAME, SAME_LOWER or VALID.

    With SAME there are as many places as strides fit into the dimension; where it is uneven
    one more comes after (with SAME_LOWER before).
    """
    ones = (1,) * len(window_shape)
    return list(pads_of("padtype_to_pads", padding, in_shape, window_shape, window_strides, ones))


def pads_of(
    name: str,
    padding: Any,
    shape: Sequence[int],
    sizes: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
) -> Pads:
    """Return padding as pairs, from a name or from pairs."""
    if not isinstance(padding, str):
        pads = tuple(tuple(pair) for pair in padding)
        fits = len(pads) == len(shape) and all(len(pair) == 2 for pair in pads)
        require(fits, name, f"padding is a name or {len(shape)} pairs, not {padding!r}")
        return pads
    if padding.upper() == "VALID":
        return ((0, 0),) * len(shape)
    if padding.upper() not in ("SAME", "SAME_LOWER"):
        refuse(name, f"padding is SAME, SAME_LOWER, VALID or pairs, not {padding!r}")
    made = []
    for n, size, stride, apart in zip(shape, sizes, strides, dilation, strict=True):
        extent = (size - 1) * apart + 1
        total = max((-(-n // stride) - 1) * stride + extent - n, 0)
        less, more = total // 2, total - total // 2
        made.append((less, more) if padding.upper() == "SAME" else (more, less))
    return tuple(made)


_STATIC = "window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation"


@lax_operation(static=("computation", *_STATIC))
def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[..., Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Any = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Return what a window holds at each place, reduced by a function of two scalars.

    Parameters
    ----------
    operand
        An array, or a tree of arrays of one shape.
    init_value
        The function's identity, a scalar for each array.
    computation
        Takes two scalars, or trees of them, and returns one.
    window_dimensions, window_strides
        The window's extents, and how far it moves; by 1 where omitted.
    padding
        ``"SAME"``, ``"SAME_LOWER"``, ``"VALID"``, or a pair for each dimension.
    base_dilation, window_dilation
        The distance between elements of the array, and of the window; 1 where omitted.
    """
    name = "reduce_window"
    leaves, structure = tree_util.tree_flatten(operand)
    values = [as_value(leaf) for leaf in leaves]
    shape = values[0].aval.shape
    require(all(v.aval.shape == shape for v in values), name, "operands have one shape")
    starts = initials(name, init_value, values)
    sizes, ones = tuple(window_dimensions), (1,) * len(shape)
    strides, base = tuple(window_strides or ones), tuple(base_dilation or ones)
    apart = tuple(window_dilation or ones)
    fits = len(sizes) == len(strides) == len(base) == len(apart) == len(shape)
    require(fits, name, f"{values[0].aval} takes {len(shape)} window sizes, strides and dilations")
    wide = [(n - 1) * d + 1 if n else 0 for n, d in zip(shape, base, strict=True)]
    pads = pads_of(name, padding, wide, sizes, strides, apart)
    flat = combined(name, computation, structure)
    made = tracing.reduce_window(flat, values, starts, Window(sizes, strides, pads, base, apart))
    return tree_util.tree_unflatten(structure, made)
