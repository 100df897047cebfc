"""Trees of values: what `device_put` and its like go through, and errors with a leaf's path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from devrt._pytree.node_types import too_deep
from devrt._pytree.registry import array_registry
from devrt.arrays.array import Array
from devrt.errors import ClosedError, DeletedError, InvalidArgumentError

__all__ = [
    "HOST_LEAVES",
    "NAMED_BY_PATH",
    "arrays_and_others",
    "is_leaf",
    "leaves",
    "leaves_like",
    "map_batch",
    "map_leaves",
]

NAMED_BY_PATH = (InvalidArgumentError, DeletedError, ClosedError)
"""Errors that are about one leaf, and are raised again with its path."""

_LONGEST = 400  # characters of an outline in a message

HOST_LEAVES: set[type] = {bool, int, float, complex, str, bytes}
"""Types known to be leaves that are no arrays on devices; NumPy's join when they are met."""


def is_leaf(x: Any) -> bool:
    """Return whether ``x`` is a single value rather than a tree of them."""
    if type(x) in HOST_LEAVES or type(x) is Array:
        return True
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray | numpy.generic):
        if type(x).__module__ == "numpy":
            HOST_LEAVES.add(type(x))
        return True
    return not array_registry.is_node(type(x))


def leaves(x: Any) -> list[Any]:
    """Return the leaves of a tree in a fixed order: dict keys sorted, the rest as it stands."""
    return [x] if is_leaf(x) else array_registry.flatten(x)[0]


def arrays_and_others(x: Any) -> tuple[list[Array], list[Any]]:
    """Return the arrays on devices in a tree, and its other leaves, in no particular order.

    Goes through Python's own containers itself, which is several times faster than `leaves`, that
    has to keep the order and know every registered class.
    """
    arrays: list[Array] = []
    others: list[Any] = []
    try:
        _collect((x,), arrays, others)
    except RecursionError as error:
        raise too_deep() from error
    return arrays, others


def _collect(values: Iterable[Any], arrays: list[Array], others: list[Any]) -> None:
    for value in values:
        kind = type(value)
        if kind is Array:
            arrays.append(value)
        elif kind is list or kind is tuple:
            _collect(value, arrays, others)
        elif kind is dict:
            _collect(value.values(), arrays, others)
        elif kind not in HOST_LEAVES:
            found = leaves(value)
            arrays += [leaf for leaf in found if type(leaf) is Array]
            others += [leaf for leaf in found if type(leaf) is not Array]


def map_leaves(function: Callable[..., Any], x: Any, *prefix: Any) -> Any:
    """Apply ``function`` to every leaf and return a tree of the same structure.

    A ``prefix``, if given, is one value for all leaves or a tree whose structure is a beginning of
    that of ``x``; the function gets its value as a second argument.

    An error of `NAMED_BY_PATH` is raised again with the leaf's path in front.
    """
    values, structure = array_registry.flatten(x)
    seconds = [_broadcast(tree, x, len(values)) for tree in prefix]
    results = []
    for position, value in enumerate(values):
        try:
            results.append(function(value, *(second[position] for second in seconds)))
        except NAMED_BY_PATH as error:
            path = _path(x, position)
            msg = f"leaf {path}: {error.message}"
            again = type(error)(msg, code=error.code, **{**error.data, "path": path})
            # It repeats the first one whole; what that came from is still the cause.
            raise again from error.__cause__
    return structure.unflatten(results)


def _path(x: Any, position: int) -> str:
    from devrt._pytree.keys import keystr

    return f"x{keystr(array_registry.flatten_with_path(x)[0][position][0])}"


def map_batch(function: Callable[[list[Any]], list[Any]], x: Any) -> Any:
    """Apply ``function`` to the list of all leaves, and return a tree of the same structure."""
    values, structure = array_registry.flatten(x)
    return structure.unflatten(function(values))


def leaves_like(y: Any, x: Any, name: str) -> list[Any]:
    """Return the parts of ``y`` that stand where ``x`` has its leaves.

    Raises `InvalidArgumentError` if ``y``, which messages call ``name``, has another structure.
    """
    if is_leaf(x):
        return [y]
    structure = array_registry.flatten(x)[1]
    try:
        return structure.flatten_up_to(y)
    except (InvalidArgumentError, RecursionError) as error:
        msg = (
            f"{name} is {_outline(y)}, which does not have the structure of the values, "
            f"{_outline(x)}. Pass a tree of writable arrays of the same structure."
        )
        raise InvalidArgumentError(msg) from error


def _broadcast(prefix: Any, x: Any, count: int) -> list[Any]:
    if not array_registry.is_node(type(prefix)) or prefix is None:
        return [prefix] * count
    from devrt._pytree.functions import broadcast_prefix

    try:
        # None is a tree without leaves elsewhere, and a target here.
        return broadcast_prefix(prefix, x, is_leaf=lambda target: target is None)
    except RecursionError as error:
        raise too_deep() from error
    except InvalidArgumentError as error:
        msg = f"a tree of targets or options does not fit the tree of values: {error}"
        raise InvalidArgumentError(msg) from error


def _outline(x: Any) -> str:
    """Return the structure of a tree with the shapes of its leaves, and no values."""
    try:
        values, structure = array_registry.flatten(x)
        text = repr(structure.unflatten(list(map(_Outline, values))))
    except (InvalidArgumentError, RecursionError):
        return f"a {type(x).__name__} without an end"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


class _Outline:
    def __init__(self, leaf: Any) -> None:
        self._leaf = leaf

    def __repr__(self) -> str:
        shape, dtype = getattr(self._leaf, "shape", None), getattr(self._leaf, "dtype", None)
        if shape is None or dtype is None:
            return type(self._leaf).__name__
        return f"{dtype}[{', '.join(map(str, shape))}]"
