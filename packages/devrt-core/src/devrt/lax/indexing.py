"""Gather and scatter, with what happens out of bounds."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from devrt import tracing
from devrt.lax.checks import BOOL, lax_operation, named_operation, one_dtype, refuse, require
from devrt.tracing import as_value, binary, compare, constant, fill_value_of

__all__ = [
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "ScatterDimensionNumbers",
    "gather",
    "scatter",
    "scatter_add",
    "scatter_apply",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
]


class GatherDimensionNumbers(NamedTuple):
    """How the dimensions of a gather's operand, indices and result go together.

    The index vectors lie along the last dimension of the indices.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """How the dimensions of a scatter's operand, indices and updates go together.

    The index vectors lie along the last dimension of the indices.
    """

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode(enum.Enum):
    """What happens to indices out of bounds."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"

    @classmethod
    def from_any(cls, mode: Any) -> GatherScatterMode:
        """Return a mode by its name; None is ``FILL_OR_DROP``."""
        if isinstance(mode, cls):
            return mode
        named = {None: cls.FILL_OR_DROP, "drop": cls.FILL_OR_DROP, "fill_or_drop": cls.FILL_OR_DROP}
        named |= {each.value: each for each in cls}
        if mode not in named:
            refuse("gather", f"a mode is one of clip, fill, drop, promise_in_bounds, not {mode!r}")
        return named[mode]


@lax_operation(
    static=(
        "dimension_numbers",
        "slice_sizes",
        "unique_indices",
        "indices_are_sorted",
        "mode",
        "fill_value",
    )
)
def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Any:
    """Return slices of an array, one for each index vector.

    Where a slice is out of bounds the nearest one is taken. With mode ``fill`` the result is
    ``fill_value`` there: NaN, the least integer, or the greatest unsigned one by default.
    """
    x, indices = as_value(operand), as_value(start_indices)
    numbers = GatherDimensionNumbers(*map(tuple, dimension_numbers))
    sizes = tuple(slice_sizes)
    require(indices.aval.dtype.kind in "iu", "gather", f"indices are integers, not {indices.aval}")
    bounds = [x.aval.shape[d] - sizes[d] for d in numbers.start_index_map]
    fits = len(sizes) == len(x.aval.shape) and all(bound >= 0 for bound in bounds)
    require(fits, "gather", f"there is no slice of {x.aval} of sizes {sizes}")
    made = tracing.gather(
        x,
        indices,
        **numbers._asdict(),
        index_vector_dim=len(indices.aval.shape) - 1,
        slice_sizes=sizes,
        indices_are_sorted=indices_are_sorted,
    )
    if mode is None or GatherScatterMode.from_any(mode) is not GatherScatterMode.FILL_OR_DROP:
        return made
    is_there = _in_bounds(indices, bounds)
    rank, offsets = len(made.aval.shape), set(numbers.offset_dims)
    kept = [i for i in range(rank) if i not in offsets]
    spread = tracing.broadcast_in_dim(is_there, made.aval.shape, kept)
    fill = fill_value_of(x.aval.dtype) if fill_value is None else fill_value
    return tracing.select(spread, made, constant(fill, x.aval.dtype))


def _in_bounds(indices: Any, bounds: Sequence[int]) -> Any:
    """Return for each index vector whether its slice is within bounds."""
    dtype, rank = indices.aval.dtype, len(indices.aval.shape)
    last = constant(np.array(bounds, dtype), dtype)
    limit = tracing.broadcast_in_dim(last, indices.aval.shape, (rank - 1,))
    low = compare("GE", indices, constant(0, dtype))
    high = compare("LE", indices, limit)
    return tracing.reduce("and", binary("and", low, high), constant(True, BOOL), [rank - 1])


def _scatter(
    name: str,
    operand: Any,
    indices: Any,
    updates: Any,
    combine: str | Callable[[Any, Any], Any],
    numbers: ScatterDimensionNumbers,
    flags: tuple[bool, bool, Any],
) -> Any:
    x, new = one_dtype(name, operand, updates)
    at = as_value(indices)
    numbers = ScatterDimensionNumbers(*map(tuple, numbers))
    require(at.aval.dtype.kind in "iu", name, f"indices are integers, not {at.aval}")
    is_sorted, is_unique, mode = flags
    if GatherScatterMode.from_any(mode) is GatherScatterMode.CLIP:
        at = _clipped(x.aval.shape, at, new.aval.shape, numbers)
    dims = numbers._asdict()
    dims["input_batching_dims"] = dims.pop("operand_batching_dims")
    return tracing.scatter(
        x,
        at,
        new,
        combine,
        **dims,
        index_vector_dim=len(at.aval.shape) - 1,
        indices_are_sorted=is_sorted,
        unique_indices=is_unique,
    )


def _clipped(
    shape: tuple[int, ...], indices: Any, update: tuple[int, ...], numbers: ScatterDimensionNumbers
) -> Any:
    """Return indices moved until their windows are within bounds."""
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window = iter([update[d] for d in numbers.update_window_dims])
    sizes = [1 if d in gone else next(window) for d in range(len(shape))]
    dtype, rank = indices.aval.dtype, len(indices.aval.shape)
    bounds = [shape[d] - sizes[d] for d in numbers.scatter_dims_to_operand_dims]
    last = constant(np.array(bounds, dtype), dtype)
    limit = tracing.broadcast_in_dim(last, indices.aval.shape, (rank - 1,))
    return tracing.clamp(constant(0, dtype), indices, limit)


_STATIC = "dimension_numbers", "indices_are_sorted", "unique_indices", "mode"


def _scattering(name: str, combine: str | None, text: str) -> Callable[..., Any]:
    def compute(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Any:
        new = tracing.unary("negate", updates) if combine is None else updates
        flags = indices_are_sorted, unique_indices, mode
        how = combine or "add"
        return _scatter(name, operand, scatter_indices, new, how, dimension_numbers, flags)

    text = (
        f"Return an array with updates {text} at index vectors; those out of bounds are left out."
    )
    return named_operation(compute, name, text, static=_STATIC)


scatter = _scattering("scatter", "set", "set")
scatter_add = _scattering("scatter_add", "add", "added")
scatter_sub = _scattering("scatter_sub", None, "subtracted")
scatter_mul = _scattering("scatter_mul", "mul", "multiplied")
scatter_min = _scattering("scatter_min", "min", "taken where they are less")
scatter_max = _scattering("scatter_max", "max", "taken where they are greater")


@lax_operation(static=("func", "update_shape", *_STATIC))
def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Any:
    """Return an array with a function of elements applied at index vectors."""
    x = as_value(operand)
    zeros = constant(0, x.aval.dtype, tuple(update_shape))
    flags = indices_are_sorted, unique_indices, mode
    return _scatter(
        "scatter_apply",
        x,
        scatter_indices,
        zeros,
        lambda old, _: func(old),
        dimension_numbers,
        flags,
    )
