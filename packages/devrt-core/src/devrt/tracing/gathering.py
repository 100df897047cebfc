"""Reading and writing at positions that are values: gather, scatter, and slices that move.

Positions out of bounds are the compiler's to decide: a slice is moved until it fits, an element
that scatter would write outside is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from devrt.tracing.aval import shaped
from devrt.tracing.conversions import promote
from devrt.tracing.kinds import extreme, kind_of
from devrt.tracing.promotion import named
from devrt.tracing.reductions import scalar_region
from devrt.tracing.trace import as_value, constant, emit_one, trace_flat

__all__ = [
    "GatherDimensions",
    "ScatterDimensions",
    "dynamic_slice",
    "dynamic_update_slice",
    "fill_value_of",
    "gather",
    "operation_of",
    "scatter",
    "take",
    "take_along",
]

Dims = Sequence[int]

_COMBINE = {"add": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}
_OF_BOOL = {"add": "or", "mul": "and", "min": "and", "max": "or"}


class GatherDimensions(NamedTuple):
    """How the dimensions of a gather's operand, indices and result go together."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...]
    start_indices_batching_dims: tuple[int, ...]
    index_vector_dim: int

    def mlir(self) -> str:
        """Return the attribute's text."""
        return f"#stablehlo.gather<{_fields(self)}>"


class ScatterDimensions(NamedTuple):
    """How the dimensions of a scatter's operand, indices and updates go together."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    input_batching_dims: tuple[int, ...]
    scatter_indices_batching_dims: tuple[int, ...]
    index_vector_dim: int

    def mlir(self) -> str:
        """Return the attribute's text."""
        return f"#stablehlo.scatter<{_fields(self)}>"


def _fields(dimensions: Any) -> str:
    """Return the fields that say something: old plugins do not know those of batches."""
    given = dimensions._asdict().items()
    return ", ".join(
        f"{name} = {dims if isinstance(dims, int) else list(dims)}"
        for name, dims in given
        if dims != ()
    )


def gather(
    operand: Any,
    start_indices: Any,
    *,
    offset_dims: Dims,
    collapsed_slice_dims: Dims,
    start_index_map: Dims,
    operand_batching_dims: Dims = (),
    start_indices_batching_dims: Dims = (),
    index_vector_dim: int,
    slice_sizes: Dims,
    indices_are_sorted: bool = False,
) -> Any:
    """Return slices of an operand, one for each index vector.

    Names and rules are StableHLO's. The index vectors lie along ``index_vector_dim`` of
    ``start_indices``, which may be one past its last dimension where they are single numbers. An
    operand without elements gives zeros.
    """
    x, indices = as_value(operand), as_value(start_indices)
    gone = {*collapsed_slice_dims, *operand_batching_dims}
    window = iter([n for i, n in enumerate(slice_sizes) if i not in gone])
    batch = iter([n for i, n in enumerate(indices.aval.shape) if i != index_vector_dim])
    rank = len(indices.aval.shape) - (index_vector_dim < len(indices.aval.shape))
    offsets = set(offset_dims)
    shape = [next(window if i in offsets else batch) for i in range(rank + len(offsets))]
    if 0 in x.aval.shape:  # compilers refuse it: no slice fits, even where no index asks for one
        return constant(0, x.aval.dtype, tuple(shape), weak_type=x.aval.weak_type)
    attributes = {
        "dimension_numbers": GatherDimensions(
            tuple(offset_dims),
            tuple(collapsed_slice_dims),
            tuple(start_index_map),
            tuple(operand_batching_dims),
            tuple(start_indices_batching_dims),
            index_vector_dim,
        ),
        "slice_sizes": tuple(slice_sizes),
        "indices_are_sorted": indices_are_sorted,
    }
    result = shaped(tuple(shape), x.aval.dtype, x.aval.weak_type)
    return emit_one("stablehlo.gather", (x, indices), result, attributes)


def scatter(
    operand: Any,
    indices: Any,
    updates: Any,
    combine: str | Callable[[Any, Any], Any] = "set",
    *,
    update_window_dims: Dims,
    inserted_window_dims: Dims,
    scatter_dims_to_operand_dims: Dims,
    input_batching_dims: Dims = (),
    scatter_indices_batching_dims: Dims = (),
    index_vector_dim: int,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> Any:
    """Return an operand with updates, of its dtype, combined into it at index vectors.

    Names and rules are StableHLO's. ``combine`` is set, add, mul, min or max, or a function of the
    element that is there and the update. Updates of one element come in no certain order.
    """
    x, at, new = as_value(operand), as_value(indices), as_value(updates)
    attributes = {
        "scatter_dimension_numbers": ScatterDimensions(
            tuple(update_window_dims),
            tuple(inserted_window_dims),
            tuple(scatter_dims_to_operand_dims),
            tuple(input_batching_dims),
            tuple(scatter_indices_batching_dims),
            index_vector_dim,
        ),
        "indices_are_sorted": indices_are_sorted,
        "unique_indices": unique_indices,
    }
    region = _combination(combine, x.aval.dtype)
    return emit_one("stablehlo.scatter", (x, at, new), x.aval, attributes, (region,))


def _combination(combine: str | Callable[[Any, Any], Any], dtype: Any) -> Any:
    """Return the graph of a function of two scalars: the old and the new one."""
    if isinstance(combine, str) and combine != "set":
        return scalar_region(operation_of(combine, dtype), dtype)
    function: Callable[[Any, Any], Any] = _newer if isinstance(combine, str) else combine
    scalar = shaped((), dtype)
    return trace_flat(lambda old, new: (function(old, new),), (scalar, scalar), "scatter")


def operation_of(combine: str, dtype: Any) -> str:
    """Return the operation by which add, mul, min and max combine elements of a dtype."""
    return (_OF_BOOL if dtype == named("bool") else _COMBINE)[combine]


def _newer(_: Any, new: Any) -> Any:
    return new


def fill_value_of(dtype: Any) -> Any:
    """Return what stands for elements out of bounds where no other value is given.

    NaN, of signed integers the least, of unsigned ones the greatest, of bool true: as in JAX.
    """
    kind = kind_of(dtype)
    return float("nan") if kind in "fc" else extreme(dtype, greatest=kind != "i")


def dynamic_slice(x: Any, starts: Sequence[Any], sizes: Dims) -> Any:
    """Return the part of a value that begins at ``starts``, one integer scalar a dimension.

    A start is moved until the slice fits; a negative one counts from zero, not from the end.
    """
    x = as_value(x)
    attributes = {"slice_sizes": tuple(sizes)}
    result = shaped(tuple(sizes), x.aval.dtype, x.aval.weak_type)
    return emit_one("stablehlo.dynamic_slice", (x, *_starts(starts)), result, attributes)


def dynamic_update_slice(x: Any, update: Any, starts: Sequence[Any]) -> Any:
    """Return a value with ``update``, of its dtype, at ``starts``; they move until it fits."""
    x = as_value(x)
    return emit_one("stablehlo.dynamic_update_slice", (x, update, *_starts(starts)), x.aval)


def _starts(starts: Sequence[Any]) -> list[Any]:
    return promote(*starts) if starts else []


def take(x: Any, indices: Any, dimension: int) -> Any:
    """Return the parts of a value at positions along a dimension, which theirs take the place of.

    Positions are integers from 0; those beyond the end are moved to it.
    """
    x, indices = as_value(x), as_value(indices)
    rank, more = len(x.aval.shape), len(indices.aval.shape)
    after = range(dimension + more, rank - 1 + more)
    return gather(
        x,
        indices,
        offset_dims=(*range(dimension), *after),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        index_vector_dim=more,
        slice_sizes=tuple(1 if i == dimension else n for i, n in enumerate(x.aval.shape)),
    )


def take_along(x: Any, indices: Any, dimension: int) -> Any:
    """Return one element for each position: along a dimension, at the same place of all others.

    ``indices`` is of the value's shape but for that dimension; positions are as in `take`.
    """
    x, indices = as_value(x), as_value(indices)
    rank = len(x.aval.shape)
    others = tuple(i for i in range(rank) if i != dimension)
    return gather(
        x,
        indices,
        offset_dims=(),
        collapsed_slice_dims=(dimension,),
        start_index_map=(dimension,),
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        index_vector_dim=rank,
        slice_sizes=(1,) * rank,
    )
