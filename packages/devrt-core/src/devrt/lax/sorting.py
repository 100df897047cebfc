"""Sorting, and the greatest elements, by `jax.lax`'s names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.lax.checks import INT32, axis_of, lax_operation, require, require_kind
from devrt.lax.elementwise import neg
from devrt.tracing import as_value, emit, shaped

__all__ = ["approx_max_k", "approx_min_k", "sort", "sort_key_val", "top_k"]


@lax_operation(static=("dimension", "is_stable", "num_keys"))
def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Return an array in order along a dimension, or several arrays in the order of the first.

    NaN comes last. With ``num_keys`` the second array decides among what is equal in the first, and
    so on.
    """
    values = [as_value(x) for x in (operand if isinstance(operand, list | tuple) else (operand,))]
    require(bool(values), "sort", "takes one array or more")
    shapes = {value.aval.shape for value in values}
    shown = " and ".join(str(value.aval) for value in values)
    require(len(shapes) == 1, "sort", f"arrays have one shape, not {shown}")
    fits = 1 <= num_keys <= len(values)
    require(fits, "sort", f"num_keys is {num_keys}, and there are {len(values)} arrays")
    axis = axis_of("sort", dimension, len(values[0].aval.shape))
    made = tracing.sort(values, axis, num_keys=num_keys, is_stable=is_stable)
    return tuple(made) if isinstance(operand, list | tuple) else made[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Any, Any]:
    """Return keys in order along a dimension, and values in the order of their keys."""
    made: tuple[Any, Any] = sort((keys, values), dimension, is_stable, 1)
    return made


@lax_operation(static=("k", "axis"))
def top_k(operand: Any, k: int, *, axis: int = -1) -> Sequence[Any]:
    """Return the ``k`` greatest elements along an axis, in order, and their indices, int32.

    NaN is greater than any number; of equal elements the first comes first.
    """
    x = require_kind("top_k", operand, "iuf")
    rank = len(x.aval.shape)
    axis = axis_of("top_k", axis, rank)
    size = x.aval.shape[axis]
    require(0 <= k <= size, "top_k", f"there are not {k} elements along axis {axis} of {x.aval}")
    order = [*(i for i in range(rank) if i != axis), axis]
    moved = tracing.transpose(x, order)
    shape = (*moved.aval.shape[:-1], k)
    results = shaped(shape, x.aval.dtype, x.aval.weak_type), shaped(shape, INT32)
    made = emit("chlo.top_k", (moved,), results, {"k": k})
    back = [order.index(i) for i in range(rank)]
    return [tracing.transpose(each, back) for each in made]


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> Sequence[Any]:
    """Return the ``k`` greatest fractions along a dimension, and their indices, as `top_k` does.

    They are exact. The last three parameters are how close to exact JAX's have to be.
    """
    x = operand if hasattr(operand, "dtype") else as_value(operand)
    require(x.dtype.kind in "fV", "approx_max_k", f"the elements are fractions, not {x.dtype}")
    made: Sequence[Any] = top_k(operand, k, axis=reduction_dimension)
    return made


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> Sequence[Any]:
    """Return the ``k`` least fractions along a dimension, and their indices; see `approx_max_k`."""
    values, indices = approx_max_k(neg(operand), k, reduction_dimension)
    return [neg(values), indices]
