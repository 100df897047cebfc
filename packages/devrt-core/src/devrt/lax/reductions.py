"""Reductions over dimensions, and where the greatest and least elements lie, by JAX's names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt import tracing, tree_util
from devrt.lax.checks import axis_of, lax_operation, named_operation, require, require_kind
from devrt.tracing import as_value, convert, dtype_of, extreme, kind_of

__all__ = [
    "argmax",
    "argmin",
    "combined",
    "initials",
    "reduce",
    "reduce_and",
    "reduce_max",
    "reduce_min",
    "reduce_or",
    "reduce_prod",
    "reduce_sum",
    "reduce_xor",
]

Function = Callable[..., Any]


def initials(name: str, init_value: Any, values: Sequence[Any]) -> list[Any]:
    """Return a reduction's initial scalars, of the dtypes of its operands."""
    starts = tree_util.tree_leaves(init_value)
    fits = len(starts) == len(values) > 0
    require(fits, name, f"takes an initial value for each of {len(values)} operands")
    made = []
    for start, value in zip(starts, values, strict=True):
        scalar = as_value(start)
        is_same = scalar.aval.weak_type or scalar.aval.dtype == value.aval.dtype
        reason = f"an initial value is a scalar of its operand's dtype, not {scalar.aval}"
        require(is_same and not scalar.aval.shape, name, f"{reason} for {value.aval}")
        made.append(convert(scalar, value.aval.dtype))
    return made


def combined(name: str, computation: Function, structure: Any) -> Function:
    """Return a function of two trees of scalars as one of the scalars of two sides."""
    count = structure.num_leaves

    def flat(*scalars: Any) -> list[Any]:
        sides = [
            tree_util.tree_unflatten(structure, part) for part in (scalars[:count], scalars[count:])
        ]
        results, tree = tree_util.tree_flatten(computation(*sides))
        require(tree == structure, name, "the computation returns what it takes one of")
        made = [as_value(x) for x in results]
        for result, scalar in zip(made, scalars, strict=False):
            fits = result.aval.shape == () and result.aval.dtype == scalar.aval.dtype
            reason = f"the computation takes {scalar.aval} and returns {result.aval}"
            require(fits, name, reason)
        return made

    return flat


@lax_operation(static=("computation", "dimensions"))
def reduce(operands: Any, init_values: Any, computation: Function, dimensions: Any) -> Any:
    """Return arrays reduced over dimensions by a function of two scalars.

    Parameters
    ----------
    operands
        An array, or a tree of arrays of one shape.
    init_values
        The function's identity, a scalar for each array.
    computation
        Takes two scalars, or trees of them, and returns one; associative and commutative.
    dimensions
        Which.
    """
    leaves, structure = tree_util.tree_flatten(operands)
    values = [as_value(leaf) for leaf in leaves]
    starts = initials("reduce", init_values, values)
    shape = values[0].aval.shape
    require(all(v.aval.shape == shape for v in values), "reduce", "operands have one shape")
    axes = _axes("reduce", dimensions, len(shape))
    made = tracing.reduce_by(combined("reduce", computation, structure), values, starts, axes)
    return tree_util.tree_unflatten(structure, made)


def _axes(name: str, axes: Sequence[int], rank: int) -> list[int]:
    found = [axis_of(name, axis, rank) for axis in axes]
    require(len(set(found)) == len(found), name, f"{tuple(axes)} repeats an axis")
    return found


_IDENTITY: dict[str, Function] = {
    "add": lambda _: 0,
    "multiply": lambda _: 1,
    "maximum": lambda dtype: extreme(dtype, greatest=False),
    "minimum": lambda dtype: extreme(dtype, greatest=True),
    "and": lambda dtype: -1 if kind_of(dtype) == "i" else extreme(dtype, greatest=True),
    "or": lambda dtype: dtype.kind == "b" and False,
    "xor": lambda dtype: dtype.kind == "b" and False,
}


def identity(op: str, dtype: np.dtype[Any]) -> Any:
    """Return the identity of ``stablehlo.OP``."""
    return _IDENTITY[op](dtype)


def _reduction(name: str, op: str, kinds: str, text: str) -> Function:
    def compute(operand: Any, axes: Sequence[int]) -> Any:
        x = require_kind(name, operand, kinds)
        start = identity(op, x.aval.dtype)
        return tracing.reduce(op, x, start, _axes(name, axes, len(x.aval.shape)))

    return named_operation(compute, name, f"Return {text} over some dimensions.", static=("axes",))


reduce_and = _reduction("reduce_and", "and", "biu", "the bits that all have")
reduce_max = _reduction("reduce_max", "maximum", "biuf", "the greatest element")
reduce_min = _reduction("reduce_min", "minimum", "biuf", "the least element")
reduce_or = _reduction("reduce_or", "or", "biu", "the bits that any has")
reduce_prod = _reduction("reduce_prod", "multiply", "iufc", "the product")
reduce_sum = _reduction("reduce_sum", "add", "iufc", "the sum")
reduce_xor = _reduction("reduce_xor", "xor", "biu", "the bits that an uneven number has")


@lax_operation(static=("axis", "index_dtype"))
def argmax(operand: Any, axis: int, index_dtype: Any) -> Any:
    """Return the index of the first greatest element along an axis, or of the first NaN."""
    from devrt import numpy

    x = require_kind("argmax", operand, "biuf")
    return convert(numpy.argmax(x, axis), dtype_of(index_dtype))


@lax_operation(static=("axis", "index_dtype"))
def argmin(operand: Any, axis: int, index_dtype: Any) -> Any:
    """Return the index of the first least element along an axis, or of the first NaN."""
    from devrt import numpy

    x = require_kind("argmin", operand, "biuf")
    return convert(numpy.argmin(x, axis), dtype_of(index_dtype))
