"""What is done with trees, by JAX's names."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable
from typing import Any

from devrt._pytree.keys import KeyPath
from devrt._pytree.mismatch import first_prefix_error
from devrt._pytree.node_types import Flat, Keyed
from devrt._pytree.registry import default_registry
from devrt._pytree.treedef import PyTreeDef
from devrt.errors import DevrtError, InvalidArgumentError, InvalidTypeError

__all__ = [
    "all_leaves",
    "broadcast_prefix",
    "build_tree",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "generate_key_paths",
    "is_tree_node",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

_IsLeaf = Callable[[Any], Any] | None
_MISSING: Any = object()


def tree_flatten(tree: Any, is_leaf: _IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a tree, and its structure.

    Parameters
    ----------
    tree
        The tree: dicts (their keys sorted), lists, tuples, named tuples, None, which has no
        leaves, and instances of registered classes. All else is a leaf.
    is_leaf
        Called with each node; a true result makes it a leaf.

    Raises
    ------
    InvalidArgumentError
        If the keys of a dict cannot be sorted, the tree contains itself, or a registered function
        does not return a pair.
    """
    return default_registry.flatten(tree, is_leaf)


def tree_unflatten(treedef: PyTreeDef, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure with other leaves.

    Raises
    ------
    InvalidArgumentError
        If there are not as many leaves as the structure has.
    """
    return treedef.unflatten(leaves)


def tree_leaves(tree: Any, is_leaf: _IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree, as `tree_flatten` does."""
    return default_registry.flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: _IsLeaf = None) -> PyTreeDef:
    """Return the structure of a tree, without its leaves."""
    return default_registry.flatten(tree, is_leaf)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: _IsLeaf = None) -> Any:
    """Return the tree of what a function makes of each leaf.

    Parameters
    ----------
    f
        Called with a leaf of ``tree``, and what stands in its place in each of ``rest``.
    tree
        The tree whose structure the result has.
    *rest
        Trees of the same structure, which may go on where ``tree`` has leaves.
    is_leaf
        As for `tree_flatten`.

    Raises
    ------
    InvalidArgumentError
        If one of ``rest`` has another structure; the message says where.
    """
    leaves, treedef = default_registry.flatten(tree, is_leaf)
    columns = [_parts(treedef, tree, other, is_leaf, "tree") for other in rest]
    return treedef.unflatten([f(*row) for row in zip(leaves, *columns, strict=True)])


def _parts(treedef: PyTreeDef, tree: Any, other: Any, is_leaf: _IsLeaf, name: str) -> list[Any]:
    try:
        return treedef.flatten_up_to(other)
    except DevrtError as error:
        if isinstance(error.__cause__, RecursionError):  # which the search would meet again
            raise
        raise (first_prefix_error(tree, other, is_leaf, name) or error) from None


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[..., Any] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Return the leaves of a tree, each in a pair after its path, and the tree's structure.

    Parameters
    ----------
    tree
        The tree.
    is_leaf
        Called with each node; a true result makes it a leaf.
    is_leaf_takes_path
        Whether ``is_leaf`` is called with the node's path and the node.
    """
    if is_leaf is None or is_leaf_takes_path:
        return default_registry.flatten_with_path(tree, is_leaf)
    return default_registry.flatten_with_path(tree, lambda _, node: is_leaf(node))


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[..., Any] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """Return the leaves of a tree, each in a pair after its path."""
    return tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


generate_key_paths = tree_leaves_with_path


def tree_map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., Any] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """Return the tree of what a function makes of each leaf and its path.

    As `tree_map`, but ``f`` is called with the path first, and ``is_leaf`` as
    `tree_flatten_with_path` calls it.
    """
    pairs, treedef = tree_flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    plain = None if is_leaf_takes_path else is_leaf
    columns = [_parts(treedef, tree, other, plain, "tree_map_with_path tree") for other in rest]
    rows = zip(pairs, *columns, strict=True)
    return treedef.unflatten([f(path, leaf, *row) for (path, leaf), *row in rows])


def tree_reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _MISSING,
    is_leaf: _IsLeaf = None,
) -> Any:
    """Return what ``functools.reduce`` makes of the leaves of a tree."""
    leaves = tree_leaves(tree, is_leaf)
    if initializer is _MISSING:
        return functools.reduce(function, leaves)
    return functools.reduce(function, leaves, initializer)


def tree_reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _MISSING,
    is_leaf: _IsLeaf = None,
) -> Any:
    """Reduce the leaves of a tree by halves, for an operation that may be grouped in any way.

    Parameters
    ----------
    operation
        Called with two leaves, or results of its own.
    tree
        The tree.
    identity
        The result for a tree without leaves.
    is_leaf
        As for `tree_flatten`.

    Raises
    ------
    InvalidTypeError
        If there are no leaves and no identity.
    """
    leaves = tree_leaves(tree, is_leaf)
    if leaves:
        return _reduced(operation, leaves)
    if identity is _MISSING:
        msg = "Must specify identity for parallel reduction of empty sequence."
        raise InvalidTypeError(msg, operation="tree_reduce_associative")
    return identity


def _reduced(operation: Callable[[Any, Any], Any], leaves: list[Any]) -> Any:
    if len(leaves) == 1:
        return leaves[0]
    half = len(leaves) // 2
    return operation(_reduced(operation, leaves[:half]), _reduced(operation, leaves[half:]))


def tree_all(tree: Any, *, is_leaf: _IsLeaf = None) -> bool:
    """Return whether all leaves of a tree are true."""
    return all(tree_leaves(tree, is_leaf))


def tree_transpose(
    outer_treedef: PyTreeDef, inner_treedef: PyTreeDef | None, pytree_to_transpose: Any
) -> Any:
    """Turn a tree of trees inside out.

    Parameters
    ----------
    outer_treedef
        The structure of the tree.
    inner_treedef
        The structure of what it has as leaves, and that of the result; None for that of the first.
    pytree_to_transpose
        The tree.

    Raises
    ------
    InvalidTypeError
        If the tree is not ``outer_treedef`` with ``inner_treedef`` in the place of each leaf, or
        ``inner_treedef`` is None and ``outer_treedef`` has no leaves.
    """
    leaves, treedef = tree_flatten(pytree_to_transpose)
    if inner_treedef is None:
        parts = outer_treedef.flatten_up_to(pytree_to_transpose)
        if not parts:
            msg = f"{outer_treedef} has no leaves to take the inner structure from. Pass that too."
            raise InvalidTypeError(msg, operation="tree_transpose")
        inner_treedef = tree_structure(parts[0])
    inner, outer = inner_treedef.num_leaves, outer_treedef.num_leaves
    if treedef.num_leaves != inner * outer:
        msg = f"Mismatch\n{treedef}\n != \n{outer_treedef.compose(inner_treedef)}"
        raise InvalidTypeError(msg, operation="tree_transpose")
    columns = [leaves[i::inner] for i in range(inner)]
    return inner_treedef.unflatten(list(map(outer_treedef.unflatten, columns)))


def tree_broadcast(prefix_tree: Any, full_tree: Any, is_leaf: _IsLeaf = None) -> Any:
    """Return a tree of the structure of ``full_tree`` with the leaves of a prefix of it.

    Parameters
    ----------
    prefix_tree
        A tree whose structure is a beginning of that of ``full_tree``.
    full_tree
        The tree whose structure the result has.
    is_leaf
        As for `tree_flatten`, of ``prefix_tree``.

    Raises
    ------
    InvalidArgumentError
        If ``prefix_tree`` is no prefix; the message says where.
    """
    return tree_structure(full_tree).unflatten(broadcast_prefix(prefix_tree, full_tree, is_leaf))


def broadcast_prefix(prefix_tree: Any, full_tree: Any, is_leaf: _IsLeaf = None) -> list[Any]:
    """Return the leaves of `tree_broadcast`."""
    leaves, treedef = tree_flatten(prefix_tree, is_leaf)
    parts = _parts(treedef, prefix_tree, full_tree, is_leaf, "broadcast_prefix prefix_tree")
    counts = (len(tree_leaves(part)) for part in parts)
    return [leaf for leaf, n in zip(leaves, counts, strict=True) for _ in range(n)]


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """Return the structure of a tuple of trees of some structures."""
    return PyTreeDef.from_node_data_and_children(default_registry, (tuple, None), treedefs)


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """Return the structures of the children of a structure's root."""
    return treedef.children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Return whether a structure is one node: a leaf, or a node without children."""
    return treedef.num_nodes == 1


def build_tree(treedef: PyTreeDef, xs: Any) -> Any:
    """Return the tree of a structure whose children are given as nested iterables."""
    return treedef.from_iterable_tree(xs)


def all_leaves(iterable: Iterable[Any], is_leaf: _IsLeaf = None) -> bool:
    """Return whether all of some values are leaves."""
    if is_leaf is None:
        return not any(default_registry.is_node(type(value)) for value in iterable)
    values = list(iterable)
    leaves = tree_leaves(values, is_leaf)
    return len(leaves) == len(values) and all(map(operator.is_, values, leaves))


def is_tree_node(typ: type) -> bool:
    """Return whether the instances of a class are nodes of trees."""
    return default_registry.is_node(typ)


def flatten_one_level(tree: Any) -> Flat:
    """Return the children of a node and what else makes it up.

    Raises
    ------
    InvalidArgumentError
        If it is a leaf.
    """
    found = default_registry.flatten_one_level(tree)
    if found is None:
        raise _no_node(tree)
    return found


def flatten_one_level_with_keys(tree: Any) -> Keyed:
    """Return the children of a node, each in a pair after its key, and what else makes it up.

    Raises
    ------
    InvalidArgumentError
        If it is a leaf.
    """
    found = default_registry.flatten_one_level_with_keys(tree)
    if found is None:
        raise _no_node(tree)
    return found


def _no_node(tree: Any) -> InvalidArgumentError:
    msg = (
        f"can't tree-flatten type: {type(tree)}, whose instances are leaves. Register it with "
        "devrt.tree_util.register_pytree_node, or ask is_tree_node first."
    )
    return InvalidArgumentError(msg)
