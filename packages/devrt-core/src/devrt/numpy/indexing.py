"""Indexing: parts of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from devrt.errors import InvalidArgumentError
from devrt.numpy.division import remainder
from devrt.numpy.index_plan import Plan, plan_index
from devrt.numpy.operands import dtype_of
from devrt.programs.eager import Operation, operation
from devrt.tracing import (
    as_value,
    binary,
    broadcast,
    broadcast_in_dim,
    broadcast_to,
    clamp,
    compare,
    concatenate,
    constant,
    convert,
    iota,
    kind_of,
    named,
    reshape,
    reverse,
    select,
    slice_,
)
from devrt.tracing.gathering import dynamic_slice, fill_value_of, gather

__all__ = [
    "MODES",
    "Grid",
    "checked_mode",
    "part_of",
    "take_index",
    "take_planned",
    "take_positions",
]

MODES = ("clip", "drop", "fill", "promise_in_bounds", "wrap")
"""What becomes of positions out of bounds."""


def take_index(x: Any, index: Any) -> Any:
    """Return ``x[index]``: a copy, as arrays are immutable. Positions out of bounds are clamped."""
    return take_planned(x, *plan_index(index, x.shape))


def take_planned(x: Any, plan: Plan, operands: Sequence[Any]) -> Any:
    """Return what a plan asks for; positions out of bounds are clamped."""
    for item in plan:
        if item.kind in ("array", "truth"):
            return take_positions(x, plan, None, None, False, *operands)
    return _getitem(x, plan, *operands)


# -- integers and slices ----------------------------------------------------------------------


@partial(Operation, static_argnames=("plan",))  # a plan can be looked up as it is
def _getitem(x: Any, plan: Plan, *starts: Any) -> Any:
    x = as_value(x)
    part = part_of(x, plan, starts)
    items = [item for item in plan if item.kind != "new"]
    part = _strided(part, [item.step if item.kind == "slice" else 1 for item in items])
    shape = tuple(item.size for item in plan if item.kind != "int")
    return reshape(part, shape)


def part_of(x: Any, plan: Plan, starts: Sequence[Any]) -> Any:
    """Return the block that holds what integers and slices ask for, before steps are taken."""
    given = iter(starts)
    begins, sizes = [], []
    for item, n in zip((item for item in plan if item.kind != "new"), x.shape, strict=True):
        start = next(given) if item.has_operand else 0
        span = (item.size - 1) * (item.step if item.step > 0 else -item.step) + 1
        if item.step < 0:
            start = (
                start - (span - 1) if type(start) is int else binary("subtract", start, span - 1)
            )
        if type(start) is int:
            start = min(max(start, 0), n - 1)
        begins.append(start)
        sizes.append(span if item.size else 0)
    if all(type(start) is int for start in begins):
        ends = tuple(start + size for start, size in zip(begins, sizes, strict=True))
        return slice_(x, tuple(begins), ends)
    return dynamic_slice(x, begins, sizes)


def _strided(x: Any, steps: Sequence[int]) -> Any:
    strides = tuple(step if step > 0 else -step for step in steps)
    part = slice_(x, (0,) * x.ndim, x.shape, strides) if x.ndim else x
    return reverse(part, tuple(i for i, step in enumerate(steps) if step < 0))


# -- positions --------------------------------------------------------------------------------


class Grid:
    """The positions that a plan with arrays asks for.

    Attributes
    ----------
    operand : Value
        The array, with a dimension of size 1 for each truth value of the index.
    shape : tuple of int
        Of the result, without new dimensions.
    full_shape : tuple of int
        Of the result.
    indices : Value
        The index vectors, along the last dimension.
    dimensions : list of int
        The operand's dimension of each number of a vector.
    windows : list of int
        The result's dimensions that are ranges of the operand, taken as a whole.
    inserted : list of int
        The operand's dimensions of which a vector takes one element.
    slice_sizes : list of int
        How much a vector takes of each of the operand's dimensions.
    """

    def __init__(self, x: Any, plan: Plan, operands: Sequence[Any]) -> None:
        items = [item for item in plan if item.kind != "new"]
        self.operand = _with_truths(as_value(x), items)
        given = iter(operands)
        own = [next(given) if item.has_operand else None for item in items]
        self._items, sizes = items, self.operand.shape
        taken = {d: (own[d], item) for d, item in enumerate(items) if item.is_advanced}
        self.at = dict(zip(taken, _together(taken, sizes), strict=True))
        self._block = next(iter(self.at.values())).shape if taken else ()
        self._order(plan)
        self._starts = {
            d: own[d] for d, item in enumerate(items) if not item.is_advanced and item.has_operand
        }
        self.inserted = [d for d, item in enumerate(items) if item.is_advanced or item.step != 1]
        self.slice_sizes = [1 if d in self.inserted else n.size for d, n in enumerate(items)]
        self.dimensions = sorted({*self.at, *self._starts})

    def _order(self, plan: Plan) -> None:
        """Find where in the result the dimensions of arrays and of slices go, as NumPy does."""
        places = [i for i, item in enumerate(plan) if item.is_advanced]
        is_together = not places or places[-1] - places[0] == len(places) - 1
        rank = len(self._block)
        shape: list[int] = [] if is_together else list(self._block)
        full: list[int] = list(shape)
        first = 0
        of_slices: dict[int, int] = {}
        dimension = 0
        for i, item in enumerate(plan):
            if item.kind == "new":
                full.append(1)
                continue
            if not item.is_advanced:
                of_slices[dimension] = len(shape)
                shape.append(item.size)
                full.append(item.size)
            elif is_together and i == places[0]:
                first = len(shape)
                shape += self._block
                full += self._block
            dimension += 1
        self.shape, self.full_shape = tuple(shape), tuple(full)
        self._block_dims = list(range(first, first + rank))
        self._slice_dims = of_slices
        steps = {d: item.step for d, item in enumerate(self._items)}
        self.windows = [place for d, place in of_slices.items() if steps[d] == 1]

    @property
    def indices(self) -> Any:
        """The index vectors, along the last dimension."""
        dtype = dtype_of(*self.at.values()) if self.at else named("int32")
        columns = [convert(self._column(d), dtype) for d in self.dimensions]
        return concatenate(columns, len(columns[0].shape) - 1)

    def _column(self, d: int) -> Any:
        grid = [i for i in range(len(self.shape)) if i not in self.windows]
        shape = tuple(self.shape[i] for i in grid)
        if d in self.at:
            spread = broadcast_in_dim(self.at[d], shape, [grid.index(i) for i in self._block_dims])
        else:
            item = self._items[d]
            start = broadcast_to(as_value(self._starts[d]), shape)
            if item.step == 1:
                spread = start
            else:
                along = iota(shape, grid.index(self._slice_dims[d]), start.dtype)
                spread = binary("add", start, binary("multiply", along, item.step))
        return reshape(spread, (*shape, 1))

    def bound(self, mode: str) -> None:
        """Move positions out of bounds inside: those of ``clip`` to the ends, of ``wrap`` round."""
        for d, positions in self.at.items():
            size = self.operand.shape[d]
            if mode == "clip":
                self.at[d] = clamp(0, positions, max(size - 1, 0))
            else:
                self.at[d] = remainder(positions, size)

    def inside(self) -> Any:
        """Return where all positions are within bounds, in the shape of the result."""
        inside = None
        for d, positions in self.at.items():
            low, high = compare("GE", positions, 0), compare("LT", positions, self.operand.shape[d])
            here = binary("and", low, high)
            inside = here if inside is None else binary("and", inside, here)
        return broadcast_in_dim(inside, self.shape, self._block_dims)


def _with_truths(x: Any, items: Sequence[Any]) -> Any:
    if all(item.kind != "truth" for item in items):
        return x
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if item.kind == "truth" else next(sizes) for item in items))


def _together(taken: dict[int, Any], sizes: Sequence[int]) -> list[Any]:
    """Return positions of one dtype and shape, those of arrays below 0 counted from the end."""
    if not taken:
        return []
    wide = any(_is_wide(given) for given, _ in taken.values())
    dtype = named("int64" if wide else "int32")
    values = []
    for d, (given, item) in taken.items():
        value = convert(as_value(given), dtype)
        if item.kind == "array" and kind_of(dtype_of(given)) == "i":
            value = select(compare("LT", value, 0), binary("add", value, sizes[d]), value)
        values.append(value)
    return broadcast(*values, operation="the arrays of an index")


def _is_wide(positions: Any) -> bool:
    return dtype_of(positions).name in ("int64", "uint64", "uint32")


@operation(static=("plan", "mode", "is_sorted"))
def take_positions(
    x: Any, plan: Plan, mode: str | None, fill_value: Any, is_sorted: bool, *operands: Any
) -> Any:
    """Return what a plan with arrays asks for.

    Positions out of bounds are clamped, but with mode ``fill`` and ``drop`` give ``fill_value``:
    NaN by default, of signed integers the least, of unsigned ones the largest, of bool true.
    """
    grid = Grid(x, plan, operands)
    if 0 in grid.operand.shape:  # it has no position, and gather takes none
        return broadcast_to(_fill(fill_value, grid.operand.dtype), grid.full_shape)
    if mode == "wrap":
        grid.bound(mode)
    taken = gather(
        grid.operand,
        grid.indices,
        offset_dims=grid.windows,
        collapsed_slice_dims=grid.inserted,
        start_index_map=grid.dimensions,
        index_vector_dim=len(grid.shape) - len(grid.windows),
        slice_sizes=grid.slice_sizes,
        indices_are_sorted=is_sorted,
    )
    if mode in ("fill", "drop"):
        taken = select(grid.inside(), taken, _fill(fill_value, taken.dtype))
    return reshape(taken, grid.full_shape)


def _fill(value: Any, dtype: Any) -> Any:
    if value is None:
        return constant(fill_value_of(dtype), dtype)
    return convert(as_value(value), dtype)


def checked_mode(mode: Any) -> str | None:
    """Return a mode by its name, which JAX's enumeration has too; None for the default.

    Raises
    ------
    InvalidArgumentError
        If there is none of that name.
    """
    if mode is None:
        return None
    name = str(getattr(mode, "name", mode)).lower()
    name = {"fill_or_drop": "fill"}.get(name, name)
    if name in MODES:
        return name
    msg = f"there is no mode {mode!r} for positions out of bounds. Modes are {', '.join(MODES)}."
    raise InvalidArgumentError(msg, mode=mode)
