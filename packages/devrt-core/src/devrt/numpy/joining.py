"""Arrays joined, split and repeated."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt import tracing
from devrt.errors import ConcretizationTypeError, InvalidArgumentError
from devrt.numpy.arguments import array_of, axis_of, refuse_out, shape_at, values_of
from devrt.numpy.shaping import atleast_1d, atleast_2d, atleast_3d, ravel, reshape
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, dtype_of, promote

__all__ = [
    "array_split",
    "block",
    "column_stack",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "hsplit",
    "hstack",
    "repeat",
    "split",
    "stack",
    "tile",
    "unstack",
    "vsplit",
    "vstack",
]


@operation(static=("axis", "dtype"))
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Any:
    """Return arrays one after the other along an axis; None: their elements."""
    values = values_of(arrays, "concatenate")
    if axis is None:
        values, axis = [ravel(x) for x in values], 0
    dimension = axis_of(axis, values[0].ndim, "concatenate")
    _check_alike([_without(x.shape, dimension) for x in values], values, "concatenate")
    wanted = None if dtype is None else dtype_of(dtype)
    return tracing.concatenate(promote(*values, dtype=wanted), dimension)


def _without(shape: tuple[int, ...], i: int) -> tuple[Any, ...]:
    return (*shape[:i], *shape[i + 1 :], len(shape))


def _check_alike(keys: Sequence[Any], values: Sequence[Any], operation: str) -> None:
    for key, x in zip(keys, values, strict=True):
        if key != keys[0]:
            msg = f"{operation}: {values[0].aval} and {x.aval} have shapes that do not fit"
            shapes = (values[0].shape, x.shape)
            raise InvalidArgumentError(f"{msg}{at_user_line()}.", shapes=shapes)


def concat(arrays: Any, /, *, axis: int | None = 0) -> Any:
    """Return arrays one after the other along an axis; None: their elements."""
    return concatenate(arrays, axis)


@operation(static=("axis", "dtype"))
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Any:
    """Return arrays of one shape side by side along a new axis."""
    refuse_out(out, "stack")
    values = values_of(arrays, "stack")
    _check_alike([x.shape for x in values], values, "stack")
    dimension = axis_of(axis, values[0].ndim + 1, "stack")
    return concatenate([tracing.expand_dims(x, dimension) for x in values], dimension, dtype)


@operation(static=("axis",))
def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """Return the parts of an array along an axis, without it."""
    x = as_value(x)
    dimension = axis_of(axis, x.ndim, "unstack")
    return tuple(tracing.index_in_dim(x, i, dimension) for i in range(x.shape[dimension]))


def _parts(x: Any, bounds: Sequence[int], dimension: int) -> list[Any]:
    """Return the parts between bounds, each with the dimension."""
    return [
        tracing.slice_in_dim(x, low, max(low, high), dimension)
        for low, high in itertools.pairwise(bounds)
    ]


def vstack(tup: Any, dtype: Any = None) -> Any:
    """Return arrays one after the other as rows."""
    return concatenate([atleast_2d(x) for x in tup], 0, dtype)


def hstack(tup: Any, dtype: Any = None) -> Any:
    """Return arrays side by side: along the second axis, vectors along their only one."""
    arrays = [atleast_1d(x) for x in tup]
    return concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Any:
    """Return arrays one behind the other, along the third axis."""
    return concatenate([atleast_3d(x) for x in tup], 2, dtype)


def column_stack(tup: Any) -> Any:
    """Return vectors, and matrices, as columns of a matrix."""
    arrays = [atleast_1d(x) for x in tup]
    return concatenate([reshape(x, (-1, 1)) if x.ndim == 1 else x for x in arrays], 1)


def block(arrays: Any) -> Any:
    """Return an array of nested lists of blocks: the innermost lists join the last axis."""
    depth = _depth(arrays)
    blocks = _blocks(arrays, depth)
    rank = max([depth, *(x.ndim for x in _leaves(blocks))])
    return _joined(blocks, depth, rank)


def _depth(x: Any) -> int:
    return 1 + max(map(_depth, x), default=0) if isinstance(x, list) else 0


def _blocks(x: Any, depth: int) -> Any:
    if isinstance(x, list) and x:
        return [_blocks(part, depth - 1) for part in x]
    if depth or isinstance(x, list):
        msg = f"block: the lists are not all as deep, or one is empty{at_user_line()}."
        raise InvalidArgumentError(msg, operation="block")
    return array_of(x)


def _leaves(blocks: Any) -> list[Any]:
    return [leaf for part in blocks for leaf in _leaves(part)] if type(blocks) is list else [blocks]


def _joined(blocks: Any, depth: int, rank: int) -> Any:
    if type(blocks) is list:
        return concatenate([_joined(part, depth - 1, rank) for part in blocks], -depth)
    return reshape(blocks, (1,) * (rank - blocks.ndim) + tuple(blocks.shape))


# -- parts --------------------------------------------------------------------------------------


@operation(static=("bounds", "axis"))
def _split(x: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    return _parts(as_value(x), bounds, axis)


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return as many parts along an axis, of sizes that differ by one at most."""
    shape = shape_at(ary, "array_split")
    dimension = axis_of(axis, len(shape), "array_split")
    size = shape[dimension]
    if np.ndim(indices_or_sections):
        return _split(ary, _bounds(indices_or_sections, size), dimension)
    sections = operator.index(indices_or_sections)
    _check_sections(sections)
    each, more = divmod(size, sections)
    bounds = [i * each + min(i, more) for i in range(sections + 1)]
    return _split(ary, bounds, dimension)


def _check_sections(sections: int) -> None:
    if sections <= 0:
        msg = f"split: {sections} parts are requested, and at least 1 is needed{at_user_line()}."
        raise InvalidArgumentError(msg, sections=sections)


def _bounds(indices: Any, size: int) -> list[int]:
    given = (operator.index(i) for i in indices)
    return [0, *(min(max(i + size if i < 0 else i, 0), size) for i in given), size]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Any]:
    """Return parts along an axis: as many of one size, or those between indices."""
    shape = shape_at(ary, "split")
    dimension = axis_of(axis, len(shape), "split")
    if not np.ndim(indices_or_sections):
        sections = operator.index(indices_or_sections)
        _check_sections(sections)
        if shape[dimension] % sections:
            msg = (
                f"split: axis {dimension} of size {shape[dimension]} does not divide into "
                f"{sections} parts of one size{at_user_line()}. Use array_split."
            )
            raise InvalidArgumentError(msg, shape=shape, sections=sections)
    return array_split(ary, indices_or_sections, dimension)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the second axis, of a vector along its only one."""
    return split(ary, indices_or_sections, 0 if len(shape_at(ary, "hsplit")) == 1 else 1)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Any]:
    """Return parts along the third axis."""
    return split(ary, indices_or_sections, 2)


# -- repeated -----------------------------------------------------------------------------------


@operation(static=("reps",))
def tile(A: Any, reps: Any) -> Any:  # noqa: N803  NumPy's name
    """Return an array repeated as a whole along each axis."""
    counts = tuple(reps) if isinstance(reps, Sequence) else (reps,)
    x = as_value(A)
    rank = max(x.ndim, len(counts))
    shape = (1,) * (rank - x.ndim) + x.shape
    counts = (1,) * (rank - len(counts)) + counts
    apart = [size for pair in zip((1,) * rank, shape, strict=True) for size in pair]
    wide = [size for pair in zip(counts, shape, strict=True) for size in pair]
    spread = tracing.broadcast_to(tracing.reshape(x, tuple(apart)), tuple(wide))
    sizes = tuple(count * size for count, size in zip(counts, shape, strict=True))
    return tracing.reshape(spread, sizes)


def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Any:
    """Return an array with each element, or each part along an axis, repeated.

    In a trace ``repeats`` is a number of Python's or NumPy's, or ``total_repeat_length`` says how
    long the result is: it is cut, or its last part repeated, to that.
    """
    x = array_of(a)
    x = ravel(x) if axis is None else x
    dimension = axis_of(axis or 0, x.ndim, "repeat")
    if isinstance(repeats, tracing.Tracer):
        return _repeated(x, repeats, dimension, total_repeat_length)
    counts = np.asarray(repeats)
    if counts.size == 1 and total_repeat_length is None:
        return _repeat_each(x, int(counts.reshape(())), dimension)
    places = np.repeat(np.arange(x.shape[dimension]), counts)
    if total_repeat_length is not None:
        last = places[-1:] if places.size else np.zeros(1, int)
        missing = max(0, total_repeat_length - places.size)
        places = np.concatenate([places, np.repeat(last, missing)])[:total_repeat_length]
    return _taken(x, places.astype(np.int32), dimension)


@operation(static=("axis",))
def _taken(x: Any, places: Any, axis: int) -> Any:
    return tracing.take(x, places, axis)


@operation(static=("repeats", "axis"))
def _repeat_each(x: Any, repeats: int, axis: int) -> Any:
    x = as_value(x)
    before, after = x.shape[: axis + 1], x.shape[axis + 1 :]
    kept = [i for i in range(x.ndim + 1) if i != axis + 1]
    spread = tracing.broadcast_in_dim(x, (*before, repeats, *after), kept)
    return tracing.reshape(spread, (*before[:-1], before[-1] * repeats, *after))


def _repeated(x: Any, repeats: Any, axis: int, length: int | None) -> Any:
    """Return an array with parts repeated as often as a traced value says."""
    if length is None:
        msg = (
            f"repeat: the length of the result is not known while tracing{at_user_line()}. Give "
            "it as total_repeat_length."
        )
        raise ConcretizationTypeError(msg)
    ends = tracing.cumulative(
        "add", tracing.broadcast_to(repeats, (x.shape[axis],)), 0, dimension=0
    )
    # The part at a position is the first one whose end comes after it.
    ended = tracing.compare(
        "GE",
        tracing.iota((length, x.shape[axis]), 0, ends.dtype),
        tracing.broadcast_to(ends, (length, x.shape[axis])),
    )
    places = tracing.reduce("add", tracing.convert(ended, tracing.named("int32")), 0, [1])
    return tracing.take(x, places, axis)
