"""What an index asks for: a plan that programs are compiled by, and the positions as operands.

Integers and the starts of slices are operands, so that ``x[i]`` and ``x[i:i+n]`` are one program
for all ``i``; sizes and steps belong to the plan.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from devrt.errors import InvalidIndexError, InvalidTypeError, NonConcreteBooleanIndexError
from devrt.numpy.staged import has_values, stacked
from devrt.tracing import Tracer, at_user_line, kind_of

__all__ = ["Item", "Plan", "is_mask", "plan_index"]

Shape = tuple[int, ...]


class Item(NamedTuple):
    """What becomes of one dimension, or that there is a new one.

    ``kind`` is ``new``, ``int`` (a number of Python's), ``array`` (positions), ``truth`` (positions
    in a dimension of size 1 that is added first) or ``slice``. All but ``new`` and whole slices
    have an operand: positions, or a slice's start.
    """

    kind: str
    size: int = 1
    step: int = 1
    is_whole: bool = False

    @property
    def is_advanced(self) -> bool:
        """Whether it takes positions rather than a range."""
        return self.kind in ("int", "array", "truth")

    @property
    def has_operand(self) -> bool:
        """Whether there is an operand for it."""
        return self.kind != "new" and not self.is_whole


Plan = tuple[Item, ...]

_NEW, _INT, _ARRAY, _TRUTH = (Item(kind) for kind in ("new", "int", "array", "truth"))
_NONE = np.zeros(0, np.int32)
_FIRST = np.zeros(1, np.int32)


@functools.lru_cache(maxsize=4096)
def _whole(size: int) -> Item:
    return Item("slice", size, 1, is_whole=True)


@functools.lru_cache(maxsize=4096)
def _of_int(shape: Shape) -> Plan:
    return (_INT, *map(_whole, shape[1:]))


@functools.lru_cache(maxsize=4096)
def _of_range(size: int, shape: Shape) -> Plan:
    return (Item("slice", size), *map(_whole, shape[1:]))


def plan_index(index: Any, shape: Shape, wraps: bool = True) -> tuple[Plan, list[Any]]:
    """Return the plan of ``x[index]`` for an ``x`` of a shape, and its operands.

    Integers below 0 count from the end, or with ``wraps=False`` are out of bounds; those out of
    bounds stay so.

    Raises
    ------
    InvalidIndexError, InvalidTypeError
        If the index is none, or none for that shape.
    NonConcreteBooleanIndexError
        If truth values that are traced are to select.
    """
    if type(index) is int and shape and wraps:  # the common cases, first
        return _of_int(shape), [index + shape[0] if index < 0 else index]
    if type(index) is slice and shape and type(index.start) is type(index.stop) is int:
        start, stop, step = index.indices(shape[0]) if index.step is None else (0, 0, 0)
        if step and 0 < stop - start < shape[0]:
            return _of_range(stop - start, shape), [start]
    if isinstance(index, tuple):
        given = tuple(_as_array(each) if isinstance(each, list | tuple) else each for each in index)
    else:
        given = (index,)
    entries = _expanded(given, shape)
    plan, operands = [], []
    sizes = iter(shape)
    for entry in entries:
        item, operand = _planned(entry, sizes, wraps)
        plan.append(item)
        if item.has_operand:
            operands.append(operand)
    return tuple(plan), operands


def _as_array(entry: list[Any] | tuple[Any, ...]) -> Any:
    """Return a list in an index, such as ``x[:, [0, 2]]``, as the array that it stands for."""
    if has_values(entry):
        return stacked(entry)
    try:
        made = np.asarray(entry)
    except ValueError:  # rows of several lengths
        raise _refused(entry) from None
    return made if made.size else made.astype(np.int32)


def _planned(entry: Any, sizes: Iterator[int], wraps: bool) -> tuple[Item, Any]:
    if entry is None:
        return _NEW, None
    if isinstance(entry, bool | np.bool_):
        return _TRUTH, _FIRST if entry else _NONE
    size = next(sizes)
    if isinstance(entry, slice):
        return _sliced(entry, size)
    if isinstance(entry, int):
        if not size:
            msg = f"index {entry}{at_user_line()} is out of bounds of a dimension of size 0."
            raise InvalidIndexError(msg, index=entry)
        return _INT, entry + size if entry < 0 and wraps else entry
    return _ARRAY, entry if wraps else _unwrapped(entry, size)


def _unwrapped(positions: Any, size: int) -> Any:
    """Return positions of which those below 0 are as far below, once counted from the end."""
    from devrt import numpy

    if kind_of(positions.dtype) == "u":
        return positions
    wide = numpy.astype(numpy.asarray(positions), numpy.promote_types(positions.dtype, "int32"))
    return numpy.where(wide < 0, wide - size, wide)


def _sliced(entry: slice, size: int) -> tuple[Item, Any]:
    bounds = (entry.start, entry.stop, entry.step)
    if traced := [each for each in bounds if isinstance(each, Tracer)]:
        msg = (
            f"a slice's bound is a traced {traced[0].aval}{at_user_line()}: slices have sizes that "
            "are known while a function is traced. devrt.lax.dynamic_slice_in_dim(x, start, size) "
            "and devrt.lax.dynamic_slice take a start that is not, and a mask with "
            "devrt.numpy.where leaves elements out."
        )
        raise InvalidIndexError(msg, index=entry)
    given = [None if each is None else operator.index(each) for each in bounds]
    if given[2] == 0:
        msg = f"a slice's step is 0{at_user_line()}: it must move."
        raise InvalidIndexError(msg, index=entry)
    start, stop, step = slice(*given).indices(size)
    count = len(range(start, stop, step))
    if count == size and step == 1:
        return _whole(size), None
    return Item("slice", count, step), start if count else 0


# -- entries ----------------------------------------------------------------------------------


def _expanded(index: tuple[Any, ...], shape: Shape) -> list[Any]:
    """Return one entry for each dimension, and those that add one."""
    entries: list[Any] = []
    ellipses = [i for i, entry in enumerate(index) if entry is Ellipsis]
    if len(ellipses) > 1:
        msg = f"an index has one ellipsis, not {len(ellipses)}{at_user_line()}."
        raise InvalidIndexError(msg, index=index)
    taken = sum(_dimensions_of(entry) for entry in index)
    if taken > len(shape):
        msg = (
            f"an array of {len(shape)} dimensions, shape {shape}, is indexed with {taken} "
            f"indices{at_user_line()}."
        )
        raise InvalidIndexError(msg, shape=shape)
    rest = [slice(None)] * (len(shape) - taken)
    for entry in index if ellipses else (*index, Ellipsis):
        entries.extend(rest if entry is Ellipsis else _entry(entry, shape, entries))
    return entries


def _dimensions_of(entry: Any) -> int:
    if entry is None or entry is Ellipsis or isinstance(entry, bool | np.bool_):
        return 0
    return int(entry.ndim) if is_mask(entry) else 1


def is_mask(entry: Any) -> bool:
    """Return whether an entry of an index is an array of truth values."""
    return getattr(entry, "dtype", None) == np.bool_ and hasattr(entry, "ndim")


def _entry(entry: Any, shape: Shape, before: list[Any]) -> list[Any]:
    if entry is None or isinstance(entry, slice | bool | np.bool_):
        return [entry]
    if isinstance(entry, int | np.integer):
        return [int(entry)]
    if is_mask(entry):
        position = sum(each is not None and not isinstance(each, bool) for each in before)
        return _positions(entry, shape[position : position + entry.ndim], shape)
    dtype = getattr(entry, "dtype", None)
    if dtype is None:
        raise _refused(entry)
    if kind_of(dtype) not in "iu":
        msg = f"an index of {dtype}{at_user_line()}: indices are of integers or truth values."
        raise InvalidTypeError(msg, dtype=str(dtype))
    return [entry[()].item()] if type(entry) is np.ndarray and not entry.ndim else [entry]


def _refused(entry: Any) -> InvalidTypeError:
    if isinstance(entry, list | tuple):
        msg = (
            f"a {type(entry).__name__} is no index{at_user_line()}: make an array of it with "
            "devrt.numpy.array."
        )
    else:
        msg = (
            f"{entry!r:.80} of type {type(entry).__name__} is no index{at_user_line()}. Indices "
            "are integers, slices, None, Ellipsis, and arrays of integers or truth values."
        )
    return InvalidTypeError(msg, index=entry)


def _positions(mask: Any, sizes: Shape, shape: Shape) -> list[Any]:
    """Return the positions of a mask's true elements, one array for each of its dimensions."""
    if isinstance(mask, Tracer):
        msg = (
            f"a traced mask {mask.aval} selects a number of elements that is not known "
            f"yet{at_user_line()}. Use devrt.numpy.where(mask, x, y), or devrt.numpy.nonzero with "
            "size=; x.at[mask].set(y) takes a scalar y."
        )
        raise NonConcreteBooleanIndexError(msg)
    if tuple(mask.shape) != sizes and mask.size:  # NumPy lets one without elements select none
        msg = (
            f"a mask of shape {tuple(mask.shape)} does not fit{at_user_line()}: it indexes "
            f"dimensions of sizes {sizes} of an array of shape {shape}."
        )
        raise InvalidIndexError(msg, shape=shape)
    host = np.asarray(mask)
    if not host.ndim:
        return [bool(host)]
    return [each.astype(np.int32) for each in np.nonzero(host)]
