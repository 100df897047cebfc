"""Arrays in order, and the order of their elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from devrt import tracing
from devrt.errors import InvalidArgumentError
from devrt.numpy.arguments import axis_of, shape_at, values_of
from devrt.programs.eager import operation
from devrt.tracing import as_value, at_user_line, named

__all__ = ["argpartition", "argsort", "lexsort", "partition", "sort", "sort_complex"]

_KINDS = {None: True, "stable": True, "mergesort": True, "quicksort": False, "heapsort": False}


def _is_stable(kind: str | None, stable: bool | None, order: Any, operation: str) -> bool:
    if order is not None:
        msg = f"{operation}: order= is of arrays with fields, which devrt has not{at_user_line()}."
        raise InvalidArgumentError(msg, order=order)
    if kind not in _KINDS:
        msg = f"{operation}: {kind!r} is no kind of sorting{at_user_line()}. Give stable=."
        raise InvalidArgumentError(msg, kind=kind)
    return _KINDS[kind] if stable is None else stable


def _along(a: Any, axis: int | None, operation: str) -> tuple[Any, int]:
    x = as_value(a)
    if axis is None:
        return tracing.reshape(x, (x.size,)), 0
    return x, axis_of(axis, x.ndim, operation)


_STATIC = ("axis", "kind", "order", "stable", "descending")


@operation(static=_STATIC)
def sort(
    a: Any, axis: int | None = -1, *, kind: str | None = None, order: None = None,
    stable: bool | None = True, descending: bool = False,
) -> Any:  # fmt: skip
    """Return the elements in rising order along an axis; NaNs come last.

    In ``descending`` order they come first.
    """
    x, dimension = _along(a, axis, "sort")
    is_stable = _is_stable(kind, stable, order, "sort")
    (found,) = tracing.sort([x], dimension, is_stable=is_stable)
    return tracing.reverse(found, [dimension]) if descending else found


@operation(static=_STATIC)
def argsort(
    a: Any, axis: int | None = -1, *, kind: str | None = None, order: None = None,
    stable: bool | None = True, descending: bool = False,
) -> Any:  # fmt: skip
    """Return the indices, int32, that `sort` would take the elements from."""
    x, dimension = _along(a, axis, "argsort")
    is_stable = _is_stable(kind, stable, order, "argsort")
    index = tracing.iota(x.shape, dimension, named("int32"))
    if descending:
        # Equal elements keep their order if both they and the result are reversed.
        x, index = (tracing.reverse(each, [dimension]) for each in (x, index))
    found = tracing.sort([x, index], dimension, is_stable=is_stable)[1]
    return tracing.reverse(found, [dimension]) if descending else found


@operation(static=("axis",))
def lexsort(keys: Any, axis: int = -1) -> Any:
    """Return the indices that sort by the last key, and where it is equal by the one before it."""
    values = values_of(keys, "lexsort")
    dimension = axis_of(axis, max(values[0].ndim, 1), "lexsort")
    shapes = {x.shape for x in values}
    if len(shapes) > 1:
        msg = f"lexsort: the keys are of several shapes{at_user_line()}: {sorted(shapes)}."
        raise InvalidArgumentError(msg, shapes=sorted(shapes))
    if not values[0].ndim:
        return tracing.constant(0, named("int32"))
    index = tracing.iota(values[0].shape, dimension, named("int32"))
    return tracing.sort([*values[::-1], index], dimension, num_keys=len(values))[-1]


def partition(a: Any, kth: int | Sequence[int], axis: int | None = -1) -> Any:
    """Return the elements with the ``kth`` smallest at its index, smaller ones before it.

    They are all in order: `sort` is what compilers have.
    """
    _check_kth(a, kth, axis, "partition")
    return sort(a, axis)


def argpartition(a: Any, kth: int | Sequence[int], axis: int | None = -1) -> Any:
    """Return the indices, int32, that `partition` would take the elements from."""
    _check_kth(a, kth, axis, "argpartition")
    return argsort(a, axis)


def _check_kth(a: Any, kth: Any, axis: int | None, operation: str) -> None:
    shape = shape_at(a, operation)
    size = math.prod(shape) if axis is None else shape[axis_of(axis, len(shape), operation)]
    for k in kth if isinstance(kth, Sequence) else (kth,):
        axis_of(k, size, f"{operation}'s kth")


@operation
def sort_complex(a: Any) -> Any:
    """Return the elements in order of their real, then imaginary parts, as complex ones."""
    x = as_value(a)
    return sort(tracing.convert(x, tracing.complex_of(x.dtype)))
