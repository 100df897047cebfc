"""Reductions, by a function of two scalars."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from devrt.tracing.aval import shaped
from devrt.tracing.elementwise import nary
from devrt.tracing.ir import Graph
from devrt.tracing.trace import (
    as_value,
    composite,
    constant,
    emit,
    trace_flat,
    trace_graph,
)
from devrt.tracing.windows import Window, reduce_window

__all__ = ["cumulative", "reduce", "reduce_by", "scalar_region"]


@functools.lru_cache(maxsize=256)
def scalar_region(name: str, dtype: Any) -> Graph:
    """Return the graph of ``stablehlo.NAME`` of two scalars: one for all that use it."""
    scalar = shaped((), dtype)
    graph, made = trace_graph(functools.partial(nary, name), (scalar, scalar), name, outermost=True)
    graph.results = [made]
    return graph


def reduce(name: str, x: Any, initial: Any, dimensions: Sequence[int]) -> Any:
    """Return a value reduced over some dimensions by ``stablehlo.NAME``.

    ``initial`` is a scalar of its dtype: the operation's identity, and the result of no elements.
    """
    x = as_value(x)
    if not dimensions:
        return x
    start = initial if hasattr(initial, "aval") else constant(initial, x.aval.dtype)
    return _reduced(scalar_region(name, x.aval.dtype), (x,), (start,), dimensions)[0]


def reduce_by(
    function: Callable[..., Sequence[Any]],
    operands: Sequence[Any],
    initials: Sequence[Any],
    dimensions: Sequence[int],
) -> list[Any]:
    """Return several values of one shape, reduced together.

    ``function`` takes the scalars of two sides, all of the one before all of the other, and returns
    as many as one side has.
    """
    values = [as_value(x) for x in operands]
    starts = [as_value(x) for x in initials]
    scalars = [shaped((), value.aval.dtype) for value in values]
    region = trace_flat(function, [*scalars, *scalars], "reduce")
    return _reduced(region, values, starts, dimensions)


def _reduced(
    region: Graph, values: Sequence[Any], starts: Sequence[Any], dimensions: Sequence[int]
) -> list[Any]:
    gone = set(dimensions)
    shape = tuple(n for i, n in enumerate(values[0].aval.shape) if i not in gone)
    results = [shaped(shape, value.aval.dtype) for value in values]
    attributes = {"dimensions": tuple(sorted(dimensions))}
    return emit("stablehlo.reduce", [*values, *starts], results, attributes, (region,))


def cumulative(name: str, x: Any, identity: Any, dimension: int, *, reverse: bool = False) -> Any:
    """Return, at each position along a dimension, ``stablehlo.NAME`` of all up to there.

    ``identity`` is the operation's, a number. With ``reverse`` it is of all from there on. The
    operation is the composite ``devrt.cumulative``, with these arguments as its attributes.
    """
    attributes = {"name": name, "dimension": dimension, "reverse": reverse}
    return composite(
        "cumulative",
        lambda value: (_windows(name, value, identity, dimension, reverse),),
        (x,),
        attributes,
    )[0]


def _windows(name: str, x: Any, identity: Any, dimension: int, reverse: bool) -> Any:
    aval = x.aval
    size, ones, none = aval.shape[dimension], (1,) * aval.ndim, ((0, 0),) * aval.ndim
    around = (0, size - 1) if reverse else (size - 1, 0)
    sizes = (*ones[:dimension], size, *ones[dimension + 1 :])
    padding = (*none[:dimension], around, *none[dimension + 1 :])
    window = Window(sizes, ones, padding, ones, ones)
    start = constant(identity, aval.dtype)
    return reduce_window(lambda a, b: (nary(name, a, b),), (x,), (start,), window)[0]
