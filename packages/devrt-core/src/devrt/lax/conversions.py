"""Conversions, choices among elements, and arrays of one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt._pytree import array_trees
from devrt.lax.checks import (
    BOOL,
    INT32,
    axis_of,
    lax_operation,
    one_dtype,
    refuse,
    require,
    require_kind,
)
from devrt.tracing import as_value, compare, constant, dtype_of, emit, emit_one, kind_of, shaped

__all__ = [
    "bitcast_convert_type",
    "broadcasted_iota",
    "clamp",
    "convert_element_type",
    "empty",
    "full",
    "full_like",
    "iota",
    "optimization_barrier",
    "reduce_precision",
    "select",
    "select_n",
    "stop_gradient",
]


@lax_operation(static=("new_dtype",))
def convert_element_type(operand: Any, new_dtype: Any) -> Any:
    """Return an array with another dtype; fractions become integers towards zero."""
    return tracing.convert(operand, dtype_of(new_dtype))


@lax_operation(static=("new_dtype",))
def bitcast_convert_type(operand: Any, new_dtype: Any) -> Any:
    """Return the same bits as another dtype.

    A wider dtype takes the last dimension, which holds the parts of an element; a narrower one adds
    it.
    """
    x, dtype = as_value(operand), dtype_of(new_dtype)
    old, new, shape = x.aval.dtype.itemsize, dtype.itemsize, x.aval.shape
    if old > new:
        shape = (*shape, old // new)
    elif old < new:
        fits = bool(shape) and shape[-1] * old == new
        reason = f"the last dimension of {x.aval} does not hold the parts of a {dtype}"
        require(fits, "bitcast_convert_type", reason)
        shape = shape[:-1]
    return emit_one("stablehlo.bitcast_convert", (x,), shaped(shape, dtype))


@lax_operation(static=("exponent_bits", "mantissa_bits"))
def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Any:
    """Return floats rounded to what fewer bits of exponent and mantissa hold."""
    x = require_kind("reduce_precision", operand, "f")
    attributes = {
        "exponent_bits": tracing.Literal(f"{int(exponent_bits)} : i32"),
        "mantissa_bits": tracing.Literal(f"{int(mantissa_bits)} : i32"),
    }
    return emit_one("stablehlo.reduce_precision", (x,), x.aval, attributes)


@lax_operation()
def clamp(min: Any, x: Any, max: Any) -> Any:
    """Return ``x`` between two bounds of its dtype, each a scalar or of its shape."""
    low, x, high = one_dtype("clamp", min, x, max)
    for bound in (low, high):
        fits = bound.aval.shape in ((), x.aval.shape)
        reason = f"a bound is a scalar or of the shape of {x.aval}, not {bound.aval}"
        require(fits, "clamp", reason)
    return tracing.clamp(low, x, high)


@lax_operation()
def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    """Return elements of one array where a bool is true, of another elsewhere.

    ``pred`` is a scalar or of the shape of both.
    """
    return select_n(pred, on_false, on_true)


@lax_operation()
def select_n(which: Any, *cases: Any) -> Any:
    """Return elements of the array that ``which`` counts: a bool for two, an int32 for any number.

    ``which`` is a scalar or of the shape of the arrays.
    """
    require(bool(cases), "select_n", "takes one case or more")
    index, values = as_value(which), one_dtype("select_n", *cases)
    shapes = {value.aval.shape for value in values}
    shown = " and ".join(str(value.aval) for value in values)
    require(len(shapes) == 1, "select_n", f"cases have one shape, not {shown}")
    fits = index.aval.shape in ((), values[0].aval.shape)
    require(fits, "select_n", f"{index.aval} is neither a scalar nor of the shape of {shown}")
    if index.aval.dtype == BOOL:
        require(len(values) <= 2, "select_n", "a bool selects among two cases")
        return values[0] if len(values) == 1 else tracing.select(index, values[1], values[0])
    if index.aval.dtype != INT32:
        refuse("select_n", f"which is a bool or an int32, not {index.aval}")
    result = values[-1]
    for i in range(len(values) - 2, -1, -1):
        result = tracing.select(compare("LE", index, constant(i, INT32)), values[i], result)
    return result


@lax_operation(static=("shape", "dtype"))
def full(shape: Sequence[int], fill_value: Any, dtype: Any = None, *, sharding: Any = None) -> Any:
    """Return an array of one value; of its dtype unless another is given."""
    value = as_value(fill_value)
    require(not value.aval.shape, "full", f"the value is a scalar, not {value.aval}")
    if dtype is not None:
        value = tracing.convert(value, dtype_of(dtype))
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    made = tracing.broadcast_in_dim(value, sizes, ())
    return made if sharding is None else _constrained(made, sharding)


def _constrained(value: Any, sharding: Any) -> Any:
    from devrt import lax

    return lax.with_sharding_constraint(value, sharding)


@lax_operation(static=("dtype", "shape"))
def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Any = None) -> Any:
    """Return an array of one value, with the shape and dtype of another unless they are given."""
    like = as_value(x)
    target = like.aval.dtype if dtype is None else dtype_of(dtype)
    return full(like.aval.shape if shape is None else shape, fill_value, target)


@lax_operation(static=("shape", "dtype"))
def empty(shape: Sequence[int], dtype: Any) -> Any:
    """Return an array of zeros: arrays are immutable, so unset elements could never be set."""
    return full(shape, 0, dtype)


@lax_operation(static=("dtype", "size"))
def iota(dtype: Any, size: int) -> Any:
    """Return the numbers from 0 to below a size."""
    return broadcasted_iota(dtype, (size,), 0)


@lax_operation(static=("dtype", "shape", "dimension"))
def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Any:
    """Return an array whose elements are their positions along a dimension."""
    target = dtype_of(dtype)
    if kind_of(target) == "b":
        refuse("iota", "counts in numbers, not in bool")
    return tracing.iota(tuple(shape), axis_of("iota", dimension, len(shape)), target)


@lax_operation()
def optimization_barrier(operand: Any, /) -> Any:
    """Return a tree of arrays as it is; the compiler moves nothing across."""
    leaves, structure = array_trees.tree_flatten(operand)
    values = [as_value(leaf) for leaf in leaves]
    made = emit("stablehlo.optimization_barrier", values, [value.aval for value in values])
    return array_trees.tree_unflatten(structure, made if values else [])


@lax_operation()
def stop_gradient(x: Any) -> Any:
    """Return a tree of arrays as it is; gradients take it for a constant."""

    def stopped(leaf: Any) -> Any:
        return tracing.composite("stop_gradient", lambda value: [value], [leaf])[0]

    return array_trees.tree_map(stopped, x)
