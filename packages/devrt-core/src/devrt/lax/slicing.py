"""Parts of arrays, at places that are known and at places that are values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.lax.checks import INT32, axis_of, lax_operation, one_dtype, refuse, require
from devrt.tracing import as_value, binary, compare, constant

__all__ = [
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "index_in_dim",
    "slice",
    "slice_in_dim",
]


@lax_operation(static=("start_indices", "limit_indices", "strides"))
def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Any:
    """Return the elements from starts to before limits, every ``strides``-th."""
    x = as_value(operand)
    shape = x.aval.shape
    starts, limits = tuple(start_indices), tuple(limit_indices)
    steps = tuple(strides or (1,) * len(shape))
    fits = len(starts) == len(limits) == len(steps) == len(shape) and all(
        0 <= a <= b <= n and s > 0 for a, b, n, s in zip(starts, limits, shape, steps, strict=True)
    )
    reason = f"there is no part of {x.aval} from {starts} to {limits} in steps of {steps}"
    require(fits, "slice", reason)
    return tracing.slice_(x, starts, limits, steps)


@lax_operation(static=("start_index", "limit_index", "stride", "axis"))
def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Any:
    """Return a part along one dimension; indices may count from the end, None is the end."""
    x = as_value(operand)
    shape = x.aval.shape
    axis = axis_of("slice_in_dim", axis, len(shape))
    size = shape[axis]
    start, limit = 0 if start_index is None else start_index, limit_index
    limit = size if limit is None else limit
    starts, limits, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    steps[axis] = stride
    return slice(x, starts, limits, steps)


@lax_operation(static=("index", "axis", "keepdims"))
def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Any:
    """Return one place along a dimension, which stays with size 1 unless ``keepdims`` is false."""
    x = as_value(operand)
    axis = axis_of("index_in_dim", axis, len(x.aval.shape))
    size = x.aval.shape[axis]
    if not -size <= index < size:
        refuse("index_in_dim", f"index {index} is out of bounds for axis {axis} of {x.aval}")
    part = slice_in_dim(x, index % size, index % size + 1, 1, axis)
    return part if keepdims else tracing.squeeze(part, axis)


@lax_operation(static=("slice_sizes",))
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Any:
    """Return a part of given sizes that begins at integer scalars, one for each dimension.

    A start that is negative counts from the end; one from which the part would reach beyond the end
    is moved.
    """
    x = as_value(operand)
    sizes, shape = tuple(slice_sizes), x.aval.shape
    fits = len(sizes) == len(shape) and all(0 <= a <= n for a, n in zip(sizes, shape, strict=True))
    require(fits, "dynamic_slice", f"there is no part of {x.aval} of sizes {sizes}")
    return tracing.dynamic_slice(x, _starts("dynamic_slice", start_indices, shape), sizes)


@lax_operation()
def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Any:
    """Return an array with ``update`` at integer scalars, one for each dimension.

    Starts are as those of `dynamic_slice`.
    """
    x, part = one_dtype("dynamic_update_slice", operand, update)
    sizes, shape = part.aval.shape, x.aval.shape
    fits = len(sizes) == len(shape) and all(a <= n for a, n in zip(sizes, shape, strict=True))
    require(fits, "dynamic_update_slice", f"{part.aval} is no part of {x.aval}")
    starts = _starts("dynamic_update_slice", start_indices, shape)
    return tracing.dynamic_update_slice(x, part, starts)


def _starts(name: str, starts: Any, shape: tuple[int, ...]) -> list[Any]:
    """Return starts as values, with negative ones counted from the end."""
    if not isinstance(starts, list | tuple):
        vector = as_value(starts)
        require(len(vector.aval.shape) == 1, name, f"starts are a vector, not {vector.aval}")
        whole = range(vector.aval.shape[0])
        starts = [tracing.index_in_dim(vector, i) for i in whole]
    require(len(starts) == len(shape), name, f"takes {len(shape)} starts, not {len(starts)}")
    return [_from_zero(name, start, size) for start, size in zip(starts, shape, strict=True)]


def _from_zero(name: str, start: Any, size: int) -> Any:
    if isinstance(start, int) and not isinstance(start, bool):
        return constant(start + size if start < 0 else start, INT32)
    value = as_value(start)
    if value.aval.shape or value.aval.dtype.kind not in "iu":
        refuse(name, f"a start is an integer scalar, not {value.aval}")
    if value.aval.dtype.kind == "u":
        return value
    end = constant(size, value.aval.dtype)
    is_negative = compare("LT", value, constant(0, value.aval.dtype))
    return tracing.select(is_negative, binary("add", value, end), value)


@lax_operation(static=("slice_size", "axis"))
def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Any:
    """Return a part of a size along one dimension; see `dynamic_slice`."""
    x = as_value(operand)
    shape = x.aval.shape
    axis = axis_of("dynamic_slice_in_dim", axis, len(shape))
    sizes = [*shape[:axis], slice_size, *shape[axis + 1 :]]
    return dynamic_slice(x, _at(start_index, axis, len(shape)), sizes)


def _at(start: Any, axis: int, rank: int) -> list[Any]:
    return [start if i == axis else 0 for i in range(rank)]


@lax_operation(static=("axis", "keepdims"))
def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Any:
    """Return one place along a dimension; see `dynamic_slice`."""
    x = as_value(operand)
    part = dynamic_slice_in_dim(x, index, 1, axis)
    return part if keepdims else tracing.squeeze(part, axis % len(x.aval.shape))


@lax_operation(static=("axis",))
def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Any:
    """Return an array with ``update`` at a place along one dimension; see `dynamic_slice`."""
    x = as_value(operand)
    axis = axis_of("dynamic_update_slice_in_dim", axis, len(x.aval.shape))
    return dynamic_update_slice(x, update, _at(start_index, axis, len(x.aval.shape)))


@lax_operation(static=("axis",))
def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Any:
    """Return an array with one place along a dimension replaced.

    ``update`` may lack the dimension.
    """
    x, part = as_value(operand), as_value(update)
    axis = axis_of("dynamic_update_index_in_dim", axis, len(x.aval.shape))
    if part.aval.ndim != x.aval.ndim:
        part = tracing.expand_dims(part, axis)
    return dynamic_update_slice_in_dim(x, part, index, axis)
