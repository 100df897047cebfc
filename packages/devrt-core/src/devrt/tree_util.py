"""Trees of values: what `devrt.device_put` and its like walk through, and how to add to it.

A tree is a dict, list, tuple, named tuple, None, or a class that is registered here. The work is
done by optree; classes are registered in its namespace ``"devrt"``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from devrt.arrays.tree import NAMESPACE
from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_structure",
    "tree_unflatten",
]

_Class = TypeVar("_Class", bound=type)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], Any],
) -> None:
    """Make the instances of a class trees.

    Parameters
    ----------
    nodetype
        The class.
    flatten_func
        Takes an instance; returns its children, and what else makes it up, which must be hashable.
    unflatten_func
        Takes the latter and new children, in this order; returns an instance.

    Raises
    ------
    InvalidTypeError
        If ``nodetype`` is no class.
    InvalidArgumentError
        If it is registered already.
    """
    import optree

    def unflatten(metadata: Any, children: Iterable[Any]) -> Any:
        return unflatten_func(metadata, tuple(children))

    try:
        optree.register_pytree_node(
            nodetype,
            lambda node: _children(flatten_func(node)),
            unflatten,
            namespace=NAMESPACE,
        )
    except TypeError as error:
        raise InvalidTypeError(str(error), nodetype=nodetype) from error
    except ValueError as error:
        raise InvalidArgumentError(str(error), nodetype=nodetype) from error


def _children(flat: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    children, metadata = flat
    return tuple(children), metadata


def register_pytree_node_class(cls: _Class) -> _Class:
    """Make the instances of a class with ``tree_flatten`` and ``tree_unflatten`` trees.

    A decorator. ``tree_flatten(self)`` returns children and metadata, and the class method
    ``tree_unflatten(metadata, children)`` an instance.
    """
    given: Any = cls
    register_pytree_node(cls, given.tree_flatten, given.tree_unflatten)
    return cls


def register_dataclass(
    nodetype: _Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
) -> _Class:
    """Make the instances of a dataclass trees. Can be used as a decorator.

    Parameters
    ----------
    nodetype
        The dataclass.
    data_fields
        The fields that are trees of arrays; all but ``meta_fields`` when omitted.
    meta_fields
        The fields that are kept as they are, and must be hashable; when omitted, those whose
        metadata has a true ``"static"``.

    Raises
    ------
    InvalidTypeError
        If ``nodetype`` is no dataclass.
    InvalidArgumentError
        If the fields are not those that its constructor takes, each once.
    """
    if not dataclasses.is_dataclass(nodetype):
        msg = f"register_dataclass takes a dataclass, not {nodetype!r}."
        raise InvalidTypeError(msg, nodetype=nodetype)
    fields = {field.name: field for field in dataclasses.fields(nodetype) if field.init}
    if meta_fields is None:
        known = set(data_fields or ())
        meta_fields = [
            name
            for name, field in fields.items()
            if (field.metadata.get("static") if data_fields is None else name not in known)
        ]
    if data_fields is None:
        data_fields = [name for name in fields if name not in meta_fields]
    data, meta = tuple(data_fields), tuple(meta_fields)
    if sorted((*data, *meta)) != sorted(fields):
        msg = (
            f"the fields of {nodetype.__qualname__} are {', '.join(fields)}, but data_fields "
            f"{data} and meta_fields {meta} do not name each of them once."
        )
        raise InvalidArgumentError(msg, nodetype=nodetype)

    def flatten(node: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return tuple(getattr(node, n) for n in data), tuple(getattr(node, n) for n in meta)

    def unflatten(metadata: tuple[Any, ...], children: Iterable[Any]) -> Any:
        values = dict(zip(data, children, strict=True))
        return nodetype(**values, **dict(zip(meta, metadata, strict=True)))

    register_pytree_node(nodetype, flatten, unflatten)
    return nodetype


def tree_flatten(tree: Any) -> tuple[list[Any], Any]:
    """Return the leaves of a tree, dict keys sorted, and its structure."""
    import optree

    return optree.tree_flatten(tree, namespace=NAMESPACE)


def tree_unflatten(treedef: Any, leaves: Iterable[Any]) -> Any:
    """Return the tree of a structure with other leaves."""
    import optree

    return optree.tree_unflatten(treedef, leaves)


def tree_leaves(tree: Any) -> list[Any]:
    """Return the leaves of a tree, dict keys sorted."""
    return tree_flatten(tree)[0]


def tree_structure(tree: Any) -> Any:
    """Return the structure of a tree, without its leaves."""
    return tree_flatten(tree)[1]


def tree_map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply a function to the leaves of trees of one structure; return a tree of the results."""
    import optree

    return optree.tree_map(f, tree, *rest, namespace=NAMESPACE)


def __dir__() -> list[str]:
    return sorted(__all__)
