"""Reductions, by a function of two scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt.tracing.aval import shaped
from devrt.tracing.elementwise import nary
from devrt.tracing.trace import as_value, constant, emit, emit_one, trace_flat

__all__ = ["reduce", "reduce_by", "scalar_region"]


def scalar_region(name: str, dtype: Any) -> Any:
    """Return the graph of ``stablehlo.NAME`` of two scalars."""
    scalar = shaped((), dtype)
    return trace_flat(lambda x, y: (nary(name, x, y),), (scalar, scalar), name)


def reduce(name: str, x: Any, initial: Any, dimensions: Sequence[int]) -> Any:
    """Return a value reduced over some dimensions by ``stablehlo.NAME``.

    ``initial`` is a scalar of its dtype: the operation's identity, and the result of no elements.
    """
    x = as_value(x)
    if not dimensions:
        return x
    aval, gone = x.aval, set(dimensions)
    shape = tuple(n for i, n in enumerate(aval.shape) if i not in gone)
    start = initial if hasattr(initial, "aval") else constant(initial, aval.dtype)
    region = scalar_region(name, aval.dtype)
    attributes = {"dimensions": tuple(sorted(dimensions))}
    return emit_one(
        "stablehlo.reduce", (x, start), shaped(shape, aval.dtype), attributes, (region,)
    )


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
    gone = set(dimensions)
    shape = tuple(n for i, n in enumerate(values[0].aval.shape) if i not in gone)
    results = [shaped(shape, value.aval.dtype) for value in values]
    attributes = {"dimensions": tuple(sorted(dimensions))}
    return emit("stablehlo.reduce", [*values, *starts], results, attributes, (region,))
