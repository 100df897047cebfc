"""Trees of values: dicts, lists, tuples and what users register with optree."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from devrt.arrays.array import Array
from devrt.errors import ClosedError, DeletedError, InvalidArgumentError

__all__ = [
    "HOST_LEAVES",
    "NAMED_BY_PATH",
    "NAMESPACE",
    "arrays_and_others",
    "is_leaf",
    "leaves",
    "leaves_like",
    "map_batch",
    "map_leaves",
    "too_deep",
]

NAMESPACE = "devrt"
"""Where classes are registered that are trees to devrt, and perhaps to nobody else."""

NAMED_BY_PATH = (InvalidArgumentError, DeletedError, ClosedError)
"""Errors that are about one leaf, and are raised again with its path."""

_NONE = object()
_LONGEST = 400  # characters of an outline in a message

HOST_LEAVES: set[type] = {bool, int, float, complex, str, bytes}
"""Types known to be leaves that are no arrays on devices; NumPy's join when they are met."""


def is_leaf(x: Any) -> bool:
    """Return whether ``x`` is a single value rather than a tree of them.

    The common kinds are recognised by their type alone; optree is imported for the others.
    """
    if type(x) in HOST_LEAVES or type(x) is Array:
        return True
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(x, numpy.ndarray | numpy.generic):
        if type(x).__module__ == "numpy":
            HOST_LEAVES.add(type(x))
        return True
    if x is None or isinstance(x, dict | list | tuple):
        return False
    import optree

    return bool(optree.tree_is_leaf(x, namespace=NAMESPACE))


def leaves(x: Any) -> list[Any]:
    """Return the leaves of a tree in a fixed order: dict keys sorted, the rest as it stands."""
    if is_leaf(x):
        return [x]
    return _flatten(x)[0]


def _flatten(x: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree and its structure."""
    import optree

    try:
        return optree.tree_flatten(x, namespace=NAMESPACE)
    except RecursionError as error:
        raise too_deep() from error


def too_deep() -> InvalidArgumentError:
    """Return the error for a tree that cannot be gone through."""
    msg = (
        "the tree of values contains itself, or is nested more deeply than Python goes. Pass a "
        "flatter tree, for example one list of its values."
    )
    return InvalidArgumentError(msg)


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
    import optree

    values, structure = _flatten(x)
    seconds = [_broadcast(tree, x, len(values)) for tree in prefix]
    results = []
    for position, value in enumerate(values):
        try:
            results.append(function(value, *(second[position] for second in seconds)))
        except NAMED_BY_PATH as error:
            path = optree.treespec_accessors(structure)[position].codify("x")
            msg = f"leaf {path}: {error.message}"
            raise type(error)(msg, code=error.code, **{**error.data, "path": path}) from error
    return optree.tree_unflatten(structure, results)


def map_batch(function: Callable[[list[Any]], list[Any]], x: Any) -> Any:
    """Apply ``function`` to the list of all leaves, and return a tree of the same structure."""
    import optree

    values, structure = _flatten(x)
    return optree.tree_unflatten(structure, function(values))


def leaves_like(y: Any, x: Any, name: str) -> list[Any]:
    """Return the parts of ``y`` that stand where ``x`` has its leaves.

    Raises `InvalidArgumentError` if ``y``, which messages call ``name``, has another structure.
    """
    if is_leaf(x):
        return [y]

    structure = _flatten(x)[1]
    try:
        parts: list[Any] = structure.flatten_up_to(y)
    except (ValueError, RecursionError) as error:
        msg = (
            f"{name} is {_outline(y)}, which does not have the structure of the values, "
            f"{_outline(x)}. Pass a tree of writable arrays of the same structure."
        )
        raise InvalidArgumentError(msg) from error
    return parts


def _broadcast(prefix: Any, x: Any, count: int) -> list[Any]:
    if not isinstance(prefix, dict | list | tuple):
        return [prefix] * count
    import optree

    # None is a tree without leaves to optree, and a target here.
    given: Any = prefix
    try:
        named = optree.tree_map(_named, given, none_is_leaf=True, namespace=NAMESPACE)
        trees: tuple[Any, Any] = (named, x)
        found = optree.broadcast_prefix(*trees, namespace=NAMESPACE)
    except RecursionError as error:
        raise too_deep() from error
    except ValueError as error:
        msg = f"the tree of targets does not fit the tree of values: {error}"
        raise InvalidArgumentError(msg) from error
    return [None if target is _NONE else target for target in found]


def _named(target: Any) -> Any:
    return _NONE if target is None else target


def _outline(x: Any) -> str:
    """Return the structure of a tree with the shapes of its leaves, and no values."""
    import optree

    try:
        text = repr(optree.tree_map(_Outline, x, namespace=NAMESPACE))
    except RecursionError:
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
