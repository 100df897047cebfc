"""Elements taken and put by arrays of positions, by NumPy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import array_of, axis_of, refuse_out
from devrt.numpy.division import remainder
from devrt.numpy.index_plan import plan_index
from devrt.numpy.indexing import checked_mode, take_positions
from devrt.numpy.selection import clip
from devrt.numpy.shaping import ravel
from devrt.numpy.updates import AtIndex
from devrt.programs.eager import operation
from devrt.tracing import (
    Tracer,
    as_value,
    at_user_line,
    broadcast,
    compare,
    iota,
    named,
    promote,
    reshape,
    select,
)

__all__ = ["choose", "put_along_axis", "take", "take_along_axis"]


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: None = None,
    mode: Any = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Any:
    """Return the parts of an array at positions along an axis; without one, its elements.

    Positions below 0 count from the end. Those out of bounds give ``fill_value`` (see
    `devrt.numpy.indexing.take_positions`), unless ``mode`` is ``clip`` or ``wrap``.
    """
    refuse_out(out, "take")
    a = array_of(a)
    a, axis = (ravel(a), 0) if axis is None else (a, axis_of(axis, a.ndim, "take"))
    at = indices if isinstance(indices, int) else array_of(indices)
    plan, operands = plan_index((*[slice(None)] * axis, at), a.shape)
    name = _mode("take", mode)
    return take_positions(a, plan, name, fill_value, bool(indices_are_sorted), *operands)


def _mode(name: str, mode: Any) -> str:
    if mode == "raise":
        msg = f"{name}: nothing is raised on devices. Modes are fill, clip and wrap."
        raise InvalidArgumentError(msg, operation=name, mode=mode)
    return checked_mode(mode) or "fill"


def take_along_axis(
    arr: Any, indices: Any, axis: int | None = -1, mode: Any = None, fill_value: Any = None
) -> Any:
    """Return for each position the element there along an axis, all other dimensions as they are.

    Positions out of bounds are as those of `take`.
    """
    name = _mode("take_along_axis", mode)
    return _take_along(array_of(arr), array_of(indices), axis, name, fill_value)


@operation(static=("axis", "mode"))
def _take_along(arr: Any, indices: Any, axis: int | None, mode: str, fill_value: Any) -> Any:
    arr, index = _along("take_along_axis", arr, indices, axis)
    plan, operands = plan_index(index, arr.shape)
    return take_positions(arr, plan, mode, fill_value, False, *operands)


def _along(name: str, arr: Any, indices: Any, axis: int | None) -> tuple[Any, tuple[Any, ...]]:
    """Return an array and its index with positions along an axis."""
    arr, indices = as_value(arr), as_value(indices)
    arr, axis = (ravel(arr), 0) if axis is None else (arr, axis_of(axis, arr.ndim, name))
    if indices.ndim != arr.ndim:
        msg = (
            f"{name}: positions of shape {indices.shape} for an array of shape "
            f"{arr.shape}{at_user_line()}: they have as many dimensions."
        )
        raise InvalidArgumentError(msg, shape=indices.shape)
    own = [tuple(n if i == d else 1 for i in range(arr.ndim)) for d, n in enumerate(arr.shape)]
    index = [iota(shape, d, named("int32")) for d, shape in enumerate(own)]
    index[axis] = indices
    return arr, tuple(index)


def put_along_axis(
    arr: Any,
    indices: Any,
    values: Any,
    axis: int | None,
    inplace: bool = False,
    *,
    mode: Any = None,
) -> Any:
    """Return an array with values at positions along an axis: the opposite of `take_along_axis`.

    Raises
    ------
    InvalidArgumentError
        If it is to happen ``inplace``, as NumPy does it: arrays are immutable.
    """
    if inplace:
        msg = "put_along_axis returns an array: arrays are immutable. Leave inplace out."
        raise InvalidArgumentError(msg, operation="put_along_axis")
    name = None if mode is None else _mode("put_along_axis", mode)
    return _put_along(array_of(arr), array_of(indices), array_of(values), axis, name)


@operation(static=("axis", "mode"))
def _put_along(arr: Any, indices: Any, values: Any, axis: int | None, mode: str | None) -> Any:
    shape = arr.shape
    arr, index = _along("put_along_axis", arr, indices, axis)
    return reshape(AtIndex(arr, index).set(values, mode=mode), shape)


def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    """Return for each position the element there of the choice with that number.

    Raises
    ------
    InvalidArgumentError
        If a number has no choice, unless ``mode`` is ``clip`` or ``wrap``; in a trace it has to be.
    """
    refuse_out(out, "choose")
    given: Sequence[Any] = [choices[i] for i in range(len(choices))]
    if mode not in ("raise", "clip", "wrap"):
        msg = f"choose: the mode is raise, clip or wrap, not {mode!r}."
        raise InvalidArgumentError(msg, operation="choose", mode=mode)
    if mode == "raise":
        if isinstance(a, Tracer):
            msg = f"choose in a trace{at_user_line()} cannot raise. Pass mode='clip' or 'wrap'."
            raise InvalidArgumentError(msg, operation="choose", mode=mode)
        host = np.asarray(a)
        if host.size and (host.min() < 0 or host.max() >= len(given)):
            msg = (
                f"choose: a number from {host.min()} to {host.max()} has no choice among "
                f"{len(given)}. Pass mode='clip' or 'wrap'."
            )
            raise InvalidArgumentError(msg, operation="choose")
    return _choose(array_of(a), [array_of(each) for each in given], mode)


@operation(static=("mode",))
def _choose(a: Any, choices: list[Any], mode: str) -> Any:
    last = len(choices) - 1
    at = clip(as_value(a), 0, last) if mode != "wrap" else remainder(a, len(choices))
    at, *values = broadcast(at, *promote(*choices), operation="choose")
    result = values[last]
    for number, value in enumerate(values[:last]):
        result = select(compare("EQ", at, number), value, result)
    return result
