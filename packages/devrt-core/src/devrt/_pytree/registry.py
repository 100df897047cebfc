"""The registry: which classes are nodes of trees, and going through a tree by it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from devrt._pytree.keys import KeyPath
from devrt._pytree.node_types import (
    LEAF,
    NAMED_TUPLE,
    Custom,
    DataClass,
    Flat,
    Keyed,
    Node,
    NodeType,
    builtin_types,
    is_named_tuple,
    too_deep,
)
from devrt._pytree.treedef import PyTreeDef
from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["PyTreeRegistry", "array_registry", "default_registry"]


class PyTreeRegistry:
    """The classes whose instances are nodes: Python's containers, and those registered.

    Parameters
    ----------
    base
        A registry whose classes are nodes here too, those registered later included.
    """

    def __init__(self, base: PyTreeRegistry | None = None) -> None:
        self._types: dict[type, NodeType] = builtin_types() if base is None else dict(base._types)
        self._wider: list[PyTreeRegistry] = []
        if base is not None:
            base._wider.append(self)

    def register_node(
        self,
        nodetype: type,
        flatten: Callable[[Any], Any],
        unflatten: Callable[[Any, Any], Any],
        flatten_with_keys: Callable[[Any], Any] | None = None,
    ) -> None:
        """Make the instances of a class nodes, taken apart and put together by functions."""
        self._add(Custom(_checked(nodetype), flatten, unflatten, flatten_with_keys))

    def register_dataclass_node(
        self, nodetype: type, data_fields: Iterable[str], meta_fields: Iterable[str]
    ) -> None:
        """Make the instances of a class nodes, whose fields are children or data."""
        self._add(DataClass(_checked(nodetype), tuple(data_fields), tuple(meta_fields)))

    def _add(self, kind: NodeType) -> None:
        if self._types.setdefault(kind.cls, kind) is not kind:
            msg = (
                f"Duplicate custom PyTreeDef type registration for {kind.cls!r}. A class is "
                "registered once; register a subclass to take it apart in another way."
            )
            raise InvalidArgumentError(msg, nodetype=kind.cls)
        for each in self._wider:
            each._add(kind)

    def is_node(self, cls: type) -> bool:
        """Return whether the instances of a class are nodes."""
        return cls in self._types or is_named_tuple(cls)

    def kind_of(self, cls: type) -> NodeType | None:
        """Return the kind of node that instances of a class are; None if they are leaves."""
        return self._types.get(cls) or (NAMED_TUPLE if is_named_tuple(cls) else None)

    def node(self, cls: type, data: Any, children: tuple[Node, ...]) -> Node:
        """Return the node of a class, with its data in the form of `PyTreeDef.node_data`.

        Raises
        ------
        InvalidArgumentError
            If the instances of the class are no nodes here.
        """
        kind = self.kind_of(cls)
        if kind is None:
            msg = (
                f"Unknown custom type in a PyTreeDef: {cls!r}. Register it with "
                "devrt.tree_util.register_pytree_node or its like first."
            )
            raise InvalidArgumentError(msg, nodetype=cls)
        if kind is NAMED_TUPLE:
            data = cls
        elif cls is dict:
            data = tuple(data)
        return kind, data, children, sum(child[3] for child in children)

    def flatten(
        self, tree: Any, is_leaf: Callable[[Any], Any] | None = None
    ) -> tuple[list[Any], PyTreeDef]:
        """Return the leaves of a tree and its structure.

        Parameters
        ----------
        tree
            The tree.
        is_leaf
            Called with each node; a true result makes it a leaf.
        """
        leaves: list[Any] = []
        try:
            if is_leaf is None:
                root = _flatten(tree, self._types, leaves)
            else:
                root = _flatten_until(tree, self._types, leaves, is_leaf)
        except RecursionError as error:
            raise too_deep() from error
        return leaves, PyTreeDef(self, root)

    def flatten_with_path(
        self, tree: Any, is_leaf: Callable[[KeyPath, Any], Any] | None = None
    ) -> tuple[list[tuple[KeyPath, Any]], PyTreeDef]:
        """Return the leaves of a tree, each after its path, and its structure.

        ``is_leaf`` is called with the path of a node and the node.
        """
        leaves: list[tuple[KeyPath, Any]] = []
        try:
            root = _flatten_with_path(tree, self._types, leaves, is_leaf, ())
        except RecursionError as error:
            raise too_deep() from error
        return leaves, PyTreeDef(self, root)

    def flatten_one_level(self, tree: Any) -> Flat | None:
        """Return the children of a node and its data; None for a leaf."""
        kind = self.kind_of(type(tree))
        if kind is None:
            return None
        children, data = kind.flatten(tree)
        return list(children) if kind is NAMED_TUPLE else children, data

    def flatten_one_level_with_keys(self, tree: Any) -> Keyed | None:
        """Return the children of a node, each after its key, and its data; None for a leaf."""
        kind = self.kind_of(type(tree))
        return None if kind is None else kind.flatten_with_keys(tree)

    def __reduce__(self) -> str:
        if self is default_registry:
            return "default_registry"
        if self is array_registry:
            return "array_registry"
        msg = "only the default registry of trees can be pickled: others have no name."
        raise InvalidTypeError(msg)


def _checked(nodetype: Any) -> type:
    if isinstance(nodetype, type):
        return nodetype
    msg = f"what is registered as a node of trees is a class, not {nodetype!r}."
    raise InvalidTypeError(msg, nodetype=nodetype)


# Three functions, each as fast as its parameters allow: the first is on the way of
# every tree that is put on a device.


def _flatten(tree: Any, types: dict[type, NodeType], leaves: list[Any]) -> Node:
    kind = types.get(type(tree))
    if kind is None:
        if not (isinstance(tree, tuple) and hasattr(tree, "_fields")):
            leaves.append(tree)
            return LEAF
        kind = NAMED_TUPLE
    children, data = kind.flatten(tree)
    kinds = set(map(type, children))
    if types.keys().isdisjoint(kinds) and not any(issubclass(kind, tuple) for kind in kinds):
        leaves.extend(children)  # mostly, and then without a step for each
        return kind, data, (LEAF,) * len(children), len(children)
    first = len(leaves)
    nodes = tuple([_flatten(child, types, leaves) for child in children])
    return kind, data, nodes, len(leaves) - first


def _flatten_until(
    tree: Any, types: dict[type, NodeType], leaves: list[Any], is_leaf: Callable[[Any], Any]
) -> Node:
    if is_leaf(tree):
        leaves.append(tree)
        return LEAF
    kind = types.get(type(tree)) or (NAMED_TUPLE if is_named_tuple(type(tree)) else None)
    if kind is None:
        leaves.append(tree)
        return LEAF
    children, data = kind.flatten(tree)
    first = len(leaves)
    nodes = tuple([_flatten_until(child, types, leaves, is_leaf) for child in children])
    return kind, data, nodes, len(leaves) - first


def _flatten_with_path(
    tree: Any,
    types: dict[type, NodeType],
    leaves: list[tuple[KeyPath, Any]],
    is_leaf: Callable[[KeyPath, Any], Any] | None,
    path: KeyPath,
) -> Node:
    is_known_leaf = is_leaf is not None and is_leaf(path, tree)
    kind = types.get(type(tree)) or (NAMED_TUPLE if is_named_tuple(type(tree)) else None)
    if is_known_leaf or kind is None:
        leaves.append((path, tree))
        return LEAF
    pairs, data = kind.flatten_with_keys(tree)
    first = len(leaves)
    nodes = [
        _flatten_with_path(child, types, leaves, is_leaf, (*path, key)) for key, child in pairs
    ]
    return kind, data, tuple(nodes), len(leaves) - first


default_registry = PyTreeRegistry()
"""The registry behind `devrt.tree_util`."""

array_registry = PyTreeRegistry(default_registry)
"""The registry by which programs and transfers take trees apart: down to arrays on devices.

An array of keys is a leaf to the user, and a node here, with its words as the only child.
"""
