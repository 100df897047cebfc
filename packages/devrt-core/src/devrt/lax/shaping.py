"""Shapes: operations that move elements without changing them, by `jax.lax`'s names."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.lax.checks import axis_of, lax_operation, one_dtype, refuse, require
from devrt.tracing import as_value

__all__ = [
    "broadcast",
    "broadcast_in_dim",
    "broadcast_shapes",
    "collapse",
    "concatenate",
    "expand_dims",
    "pad",
    "reshape",
    "rev",
    "split",
    "squeeze",
    "stack",
    "tile",
    "transpose",
    "unstack",
]


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape that all broadcast to, by NumPy's rule."""
    given = [tuple(shape) for shape in shapes]
    return tuple(tracing.broadcast_shapes(*given, operation="broadcast_shapes")) if given else ()


@lax_operation(static=("sizes",))
def broadcast(operand: Any, sizes: Sequence[int]) -> Any:
    """Return an array repeated along new first dimensions."""
    x = as_value(operand)
    shape, rank = x.aval.shape, len(sizes)
    return tracing.broadcast_in_dim(x, (*sizes, *shape), range(rank, rank + len(shape)))


@lax_operation(static=("shape", "broadcast_dimensions"))
def broadcast_in_dim(
    operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    """Return an array repeated along new dimensions, and along those of size 1.

    ``broadcast_dimensions`` has for each dimension of the array the one of the result, ascending.
    """
    x, dims, shape = as_value(operand), tuple(broadcast_dimensions), tuple(shape)
    old = x.aval.shape
    fits = (
        len(dims) == len(old)
        and list(dims) == sorted(set(dims))
        and all(0 <= d < len(shape) and n in (1, shape[d]) for d, n in zip(dims, old, strict=True))
    )
    reason = f"{x.aval} does not go into {shape} by its dimensions {dims}"
    require(fits, "broadcast_in_dim", reason)
    return tracing.broadcast_in_dim(x, shape, dims)


@lax_operation(static=("new_sizes", "dimensions"))
def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Any = None) -> Any:
    """Return the elements, row by row, in another shape of as many.

    With ``dimensions``, an order of dimensions, they are exchanged before.
    """
    x = as_value(operand)
    shape = tuple(new_sizes)
    fits = math.prod(shape) == x.aval.size and all(n >= 0 for n in shape)
    require(fits, "reshape", f"{x.aval} has {x.aval.size} elements, and {shape} others")
    return tracing.reshape(x if dimensions is None else transpose(x, dimensions), shape)


@lax_operation(static=("permutation",))
def transpose(operand: Any, permutation: Sequence[int]) -> Any:
    """Return an array whose dimension ``i`` is the operand's ``permutation[i]``."""
    x, order = as_value(operand), tuple(permutation)
    is_order = sorted(order) == list(range(len(x.aval.shape)))
    require(is_order, "transpose", f"{order} is no order of the dimensions of {x.aval}")
    return tracing.transpose(x, order)


@lax_operation(static=("start_dimension", "stop_dimension"))
def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Any:
    """Return an array with dimensions from one to before another made into one."""
    x = as_value(operand)
    shape = x.aval.shape
    first, last, _ = slice(start_dimension, stop_dimension).indices(len(shape))
    require(first < last, "collapse", f"there are no dimensions from {first} to before {last}")
    return tracing.reshape(x, (*shape[:first], math.prod(shape[first:last]), *shape[last:]))


@lax_operation(static=("dimensions",))
def expand_dims(array: Any, dimensions: Sequence[int]) -> Any:
    """Return an array with new dimensions of size 1; they count in the result."""
    x = as_value(array)
    rank = len(x.aval.shape) + len(dimensions)
    new = {axis_of("expand_dims", d, rank, is_new=True) for d in dimensions}
    require(len(new) == len(dimensions), "expand_dims", f"{tuple(dimensions)} repeats an axis")
    old = iter(x.aval.shape)
    return tracing.reshape(x, tuple(1 if i in new else next(old) for i in range(rank)))


@lax_operation(static=("dimensions",))
def squeeze(array: Any, dimensions: Sequence[int]) -> Any:
    """Return an array without some dimensions of size 1."""
    x = as_value(array)
    shape = x.aval.shape
    gone = {axis_of("squeeze", d, len(shape)) for d in dimensions}
    is_one = all(shape[d] == 1 for d in gone)
    require(is_one, "squeeze", f"dimensions {tuple(dimensions)} of {x.aval} are not all of size 1")
    return tracing.reshape(x, tuple(n for i, n in enumerate(shape) if i not in gone))


@lax_operation(static=("dimensions",))
def rev(operand: Any, dimensions: Sequence[int]) -> Any:
    """Return an array with the order of some dimensions reversed."""
    x = as_value(operand)
    return tracing.reverse(x, [axis_of("rev", d, len(x.aval.shape)) for d in dimensions])


@lax_operation(static=("dimension",))
def concatenate(operands: Sequence[Any], dimension: int) -> Any:
    """Return arrays of one dtype, one after the other along a dimension."""
    require(len(operands) > 0, "concatenate", "takes one array or more")
    values = one_dtype("concatenate", *operands)
    axis = axis_of("concatenate", dimension, len(values[0].aval.shape))
    rests = {
        (*v.aval.shape[:axis], None, *v.aval.shape[axis + 1 :]) if v.aval.shape else ()
        for v in values
    }
    shown = " and ".join(str(value.aval) for value in values)
    fits = len(rests) == 1
    require(fits, "concatenate", f"shapes differ in no dimension but {axis}, unlike {shown}")
    return tracing.concatenate(values, axis)


@lax_operation(static=("axis",))
def stack(operands: Sequence[Any], axis: int = 0) -> Any:
    """Return arrays of one shape and dtype along a new dimension."""
    require(len(operands) > 0, "stack", "takes one array or more")
    return concatenate([expand_dims(x, (axis,)) for x in operands], axis)


@lax_operation(static=("axis",))
def unstack(x: Any, axis: int = 0) -> tuple[Any, ...]:
    """Return the parts of an array along a dimension, without it."""
    x = as_value(x)
    axis = axis_of("unstack", axis, len(x.aval.shape))
    parts = split(x, (1,) * x.aval.shape[axis], axis)
    return tuple(squeeze(part, (axis,)) for part in parts)


@lax_operation(static=("sizes", "axis"))
def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Any]:
    """Return an array's parts of some sizes along a dimension."""
    x = as_value(operand)
    shape = x.aval.shape
    axis = axis_of("split", axis, len(shape))
    total = sum(sizes)
    require(total == shape[axis], "split", f"{x.aval} has {shape[axis]} there, and {sizes} {total}")
    ends = itertools.accumulate(sizes, initial=0)
    return [tracing.slice_in_dim(x, start, end, axis) for start, end in itertools.pairwise(ends)]


@lax_operation(static=("reps",))
def tile(operand: Any, reps: Sequence[int]) -> Any:
    """Return an array repeated along each dimension as often as ``reps`` says."""
    x = as_value(operand)
    shape = x.aval.shape
    require(len(reps) == len(shape), "tile", f"{x.aval} has {len(shape)} dimensions, not {reps}")
    wide = tuple(n for pair in zip(reps, shape, strict=True) for n in pair)
    spread = tracing.broadcast_in_dim(x, wide, range(1, 2 * len(shape), 2))
    return tracing.reshape(spread, tuple(r * n for r, n in zip(reps, shape, strict=True)))


@lax_operation(static=("padding_config",))
def pad(operand: Any, padding_value: Any, padding_config: Sequence[Sequence[int]]) -> Any:
    """Return an array with a value around and between its elements.

    ``padding_config`` has for each dimension how many come before, after and between; what is
    negative before and after takes elements away.
    """
    x, value = one_dtype("pad", operand, padding_value)
    require(not value.aval.shape, "pad", f"the value is a scalar, not {value.aval}")
    rank = len(x.aval.shape)
    if len(padding_config) != rank or any(len(each) != 3 for each in padding_config):
        refuse("pad", f"{x.aval} takes {rank} triples of low, high and interior padding")
    low, high, interior = zip(*padding_config, strict=True) if rank else ((), (), ())
    require(all(n >= 0 for n in interior), "pad", f"interior padding {interior} is not negative")
    return tracing.pad(x, value, low, high, interior)
