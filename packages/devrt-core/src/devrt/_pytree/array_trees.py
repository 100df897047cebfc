"""Trees as programs and transfers take them apart: their leaves lie on devices as they are.

They are those of `devrt.tree_util`, but for arrays of keys, which have their words as a leaf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devrt._pytree.functions import tree_unflatten, treedef_children, treedef_is_leaf
from devrt._pytree.keys import KeyPath, keystr
from devrt._pytree.registry import array_registry
from devrt._pytree.treedef import PyTreeDef

__all__ = [
    "keystr",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
]

_IsLeaf = Callable[[Any], Any] | None


def tree_flatten(tree: Any, is_leaf: _IsLeaf = None) -> tuple[list[Any], PyTreeDef]:
    """Return the leaves of a tree, and its structure; `is_leaf` makes nodes leaves."""
    return array_registry.flatten(tree, is_leaf)


def tree_leaves(tree: Any, is_leaf: _IsLeaf = None) -> list[Any]:
    """Return the leaves of a tree."""
    return array_registry.flatten(tree, is_leaf)[0]


def tree_structure(tree: Any) -> PyTreeDef:
    """Return the structure of a tree."""
    return array_registry.flatten(tree)[1]


def tree_map(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return the tree of what a function makes of each leaf."""
    leaves, structure = array_registry.flatten(tree)
    return structure.unflatten(list(map(function, leaves)))


def tree_flatten_with_path(
    tree: Any, is_leaf: _IsLeaf = None
) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
    """Return the leaves of a tree, each after its path, and its structure."""
    until = None if is_leaf is None else lambda _, node: is_leaf(node)
    return array_registry.flatten_with_path(tree, until)
