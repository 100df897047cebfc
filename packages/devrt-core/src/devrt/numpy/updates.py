"""Arrays with other elements at some positions: ``x.at[index].set(y)`` and its like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.numpy.index_plan import Plan, is_mask, plan_index
from devrt.numpy.indexing import Grid, checked_mode, part_of, take_planned, take_positions
from devrt.numpy.operands import dtype_of
from devrt.programs.eager import operation
from devrt.tracing import (
    as_value,
    at_user_line,
    binary,
    broadcast_in_dim,
    broadcast_shapes,
    broadcast_to,
    convert,
    kind_of,
    promote,
    reshape,
    select,
    unary,
)
from devrt.tracing.gathering import dynamic_update_slice, operation_of, scatter

__all__ = ["At", "AtIndex"]


class At:
    """What ``x.at`` is: indexed, it gives the updates of what ``x[index]`` would be."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._array, index)

    def __repr__(self) -> str:
        return f"At({self._array!r})"


class AtIndex:
    """Updates of ``x[index]``; each returns an array, and leaves ``x`` as it is.

    Every method takes ``mode``, for positions of arrays that are out of bounds: ``drop`` (the
    default: they are left out), ``clip`` (moved to the end), ``wrap``, ``promise_in_bounds``.
    With ``wrap_negative_indices=False`` positions below 0 are out of bounds too, in place of
    counted from the end. ``indices_are_sorted`` and ``unique_indices`` promise what they say, and
    may be faster. A position that comes twice is updated twice by all but `set`, which leaves
    either.
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array = array
        self._index = index

    def __repr__(self) -> str:
        return f"AtIndex({self._array!r}, {self._index!r})"

    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        fill_value: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        """Return ``x[index]``; with ``mode="fill"`` ``fill_value`` out of bounds."""
        name = checked_mode(mode)
        if name is None and fill_value is not None:
            name = "fill"
        plan, operands = plan_index(self._index, self._array.shape, wrap_negative_indices)
        if not _needs_positions(plan, name, ("fill", "drop", "wrap")):
            return take_planned(self._array, plan, operands)
        return take_positions(self._array, plan, name, fill_value, indices_are_sorted, *operands)

    def set(self, values: Any, **options: Any) -> Any:
        """Return an array with ``values`` there."""
        return self._updated("set", values, **options)

    def add(self, values: Any, **options: Any) -> Any:
        """Return an array with ``values`` added there."""
        return self._updated("add", values, **options)

    def subtract(self, values: Any, **options: Any) -> Any:
        """Return an array with ``values`` subtracted there."""
        return self._updated("subtract", values, **options)

    def multiply(self, values: Any, **options: Any) -> Any:
        """Return an array multiplied with ``values`` there."""
        return self._updated("mul", values, **options)

    mul = multiply

    def min(self, values: Any, **options: Any) -> Any:
        """Return an array with the smaller of its elements and ``values`` there."""
        return self._updated("min", values, **options)

    def max(self, values: Any, **options: Any) -> Any:
        """Return an array with the larger of its elements and ``values`` there."""
        return self._updated("max", values, **options)

    def divide(self, values: Any, **options: Any) -> Any:
        """Return an array divided by ``values`` there, of a dtype of fractions."""
        from devrt import numpy

        return numpy.true_divide(self._array, self._factors(values, **options))

    def power(self, values: Any, **options: Any) -> Any:
        """Return an array raised to the power of ``values`` there."""
        from devrt import numpy

        return numpy.power(self._array, self._factors(values, **options))

    def _factors(self, values: Any, **options: Any) -> Any:
        from devrt import numpy

        return AtIndex(numpy.ones_like(self._array), self._index).multiply(values, **options)

    def apply(self, function: Callable[[Any], Any], **options: Any) -> Any:
        """Return an array with ``function``, of one element, applied there."""
        return self._updated(function, 0, **options)

    def _updated(
        self,
        how: Any,
        values: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
        wrap_negative_indices: bool = True,
    ) -> Any:
        name, x, values = checked_mode(mode), self._array, _array(values)
        _check_complex(x, values)
        if _is_one_mask(self._index, x.shape) and isinstance(how, str) and not np.ndim(values):
            return _masked(x, how, self._index, values)
        plan, operands = plan_index(self._index, x.shape, wrap_negative_indices)
        if not _needs_positions(plan, name, ("wrap",)):
            if name not in ("clip", "promise_in_bounds") and _is_outside(plan, operands, x.shape):
                return x
            if isinstance(how, str) and all(item.step == 1 for item in plan):
                return _update_block(x, plan, how, values, *operands)
        # A function of the user is not to be kept by a program that nobody calls again.
        update = _scattered if isinstance(how, str) else operation(static=_STATIC)(_scatter)
        flags = indices_are_sorted, unique_indices
        return update(x, plan, how, name, flags, values, *operands)


def _array(values: Any) -> Any:
    if not isinstance(values, list | tuple):
        return values
    from devrt import numpy

    return numpy.array(values)


def _check_complex(x: Any, values: Any) -> None:
    if kind_of(dtype_of(values)) == "c" and kind_of(x.dtype) != "c":
        msg = (
            f"complex values{at_user_line()} do not fit an array of {x.dtype}. Take their real "
            "part, or convert the array with astype()."
        )
        raise InvalidTypeError(msg, dtype=str(x.dtype))


def _is_one_mask(index: Any, shape: tuple[int, ...]) -> bool:
    return is_mask(index) and bool(index.ndim) and tuple(index.shape) == shape[: index.ndim]


def _needs_positions(plan: Plan, mode: str | None, modes: tuple[str, ...]) -> bool:
    """Return whether a plan has arrays, or numbers whose bounds a mode is for."""
    kinds = {item.kind for item in plan}
    return not kinds.isdisjoint(("array", "truth")) or (mode in modes and "int" in kinds)


def _is_outside(plan: Plan, operands: list[Any], shape: tuple[int, ...]) -> bool:
    given = iter(operands)
    items = [item for item in plan if item.kind != "new"]
    for item, n in zip(items, shape, strict=True):
        position = next(given) if item.has_operand else 0
        if item.kind == "int" and not 0 <= position < n:
            return True
    return False


# -- programs ---------------------------------------------------------------------------------


def _combined(how: str, x: Any, y: Any) -> Any:
    """Return what an update makes of elements that are there, and those that are given."""
    if how == "set":
        return y
    if how == "subtract":
        return binary("subtract", x, y)
    return binary(operation_of(how, x.dtype), x, y)


def _as(x: Any, like: Any) -> Any:
    return convert(x, like.dtype, weak_type=like.weak_type)


@operation(static=("how",))
def _masked(x: Any, how: str, mask: Any, values: Any) -> Any:
    x, mask = as_value(x), as_value(mask)
    wide, y = promote(x, values)
    where = broadcast_in_dim(mask, x.shape, range(mask.ndim))
    return _as(select(where, _combined(how, wide, broadcast_to(y, x.shape)), wide), x)


@operation(static=("plan", "how"))
def _update_block(x: Any, plan: Plan, how: str, values: Any, *starts: Any) -> Any:
    x = as_value(x)
    items = [item for item in plan if item.kind != "new"]
    y = _spread(values, tuple(item.size for item in plan if item.kind != "int"))
    if not all(item.size for item in items) or not items:
        return x if items else _as(_combined(how, *promote(x, reshape(y, ()))), x)
    wide, y = promote(x, reshape(y, tuple(item.size for item in items)))
    given = iter(starts)
    begins = [next(given) if item.has_operand else 0 for item in items]
    old = part_of(wide, plan, starts)
    return _as(dynamic_update_slice(wide, _combined(how, old, y), begins), x)


def _spread(values: Any, shape: tuple[int, ...]) -> Any:
    """Return values broadcast to the shape of what they are put in place of."""
    y = as_value(values)
    extra = y.ndim - len(shape)
    if extra > 0 and set(y.shape[:extra]) == {1}:
        y = reshape(y, y.shape[extra:])
    if broadcast_shapes(y.shape, shape, operation="values of an update, and the part") != shape:
        msg = (
            f"values of shape {y.shape} do not fit{at_user_line()}: the part that they are put in "
            f"place of has shape {shape}."
        )
        raise InvalidArgumentError(msg, shape=shape)
    return broadcast_to(y, shape)


def _scatter(
    x: Any, plan: Plan, how: Any, mode: str | None, flags: Any, values: Any, *operands: Any
) -> Any:
    x = as_value(x)
    y = _spread(values, Grid(x, plan, operands).full_shape)
    wide, y = promote(x, y) if isinstance(how, str) else (x, convert(y, x.dtype))
    grid = Grid(wide, plan, operands)
    if 0 in (*grid.operand.shape, *grid.full_shape):
        return x
    if mode in ("clip", "wrap"):
        grid.bound(mode)
    if how == "subtract":
        how, y = "add", unary("negate", y)
    combine = how if isinstance(how, str) else lambda old, _: convert(how(old), x.dtype)
    updated = scatter(
        grid.operand,
        grid.indices,
        reshape(y, grid.shape),
        combine,
        update_window_dims=grid.windows,
        inserted_window_dims=grid.inserted,
        scatter_dims_to_operand_dims=grid.dimensions,
        index_vector_dim=len(grid.shape) - len(grid.windows),
        indices_are_sorted=flags[0],
        unique_indices=flags[1],
    )
    return _as(reshape(updated, x.shape), x)


_STATIC = ("plan", "how", "mode", "flags")
_scattered = operation(static=_STATIC)(_scatter)
