"""Registration: making classes nodes of trees, by JAX's names."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from devrt._pytree.registry import default_registry
from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "Partial",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "static",
]

_Class = TypeVar("_Class", bound=type)


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Make the instances of a class nodes of trees.

    Parameters
    ----------
    nodetype
        The class. Its subclasses are no nodes by that.
    flatten_func
        Takes an instance; returns its children, and what else makes it up, which must be hashable.
    unflatten_func
        Takes the latter and a tuple of new children, in this order; returns an instance.
    flatten_with_keys_func
        As ``flatten_func``, each child in a pair after its key; without it keys are positions.

    Raises
    ------
    InvalidTypeError
        If ``nodetype`` is no class.
    InvalidArgumentError
        If it is registered already.
    """
    default_registry.register_node(nodetype, flatten_func, unflatten_func, flatten_with_keys_func)


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Any], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """Make the instances of a class nodes of trees whose children have keys.

    Parameters
    ----------
    nodetype
        The class.
    flatten_with_keys
        Takes an instance; returns pairs of a key and a child, and what else makes it up.
    unflatten_func
        Takes the latter and a tuple of new children; returns an instance.
    flatten_func
        Returns the same children without keys, where that is faster.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        As `register_pytree_node`.
    """

    def flatten(node: Any) -> tuple[list[Any], Any]:
        pairs, data = flatten_with_keys(node)
        return [child for _, child in pairs], data

    default_registry.register_node(
        nodetype, flatten_func or flatten, unflatten_func, flatten_with_keys
    )


def register_pytree_node_class(cls: _Class) -> _Class:
    """Make the instances of a class with ``tree_flatten`` and ``tree_unflatten`` nodes of trees.

    A decorator. ``tree_flatten(self)`` returns children and metadata, and the class method
    ``tree_unflatten(metadata, children)`` an instance.
    """
    given: Any = cls
    register_pytree_node(cls, operator.methodcaller("tree_flatten"), given.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: _Class) -> _Class:
    """Make the instances of a class with ``tree_flatten_with_keys`` nodes of trees.

    A decorator. ``tree_flatten_with_keys(self)`` returns pairs of a key and a child, and metadata;
    ``tree_unflatten(metadata, children)`` an instance. ``tree_flatten`` is used where it is there.
    """
    given: Any = cls
    flatten = operator.methodcaller("tree_flatten") if hasattr(cls, "tree_flatten") else None
    with_keys = operator.methodcaller("tree_flatten_with_keys")
    register_pytree_with_keys(cls, with_keys, given.tree_unflatten, flatten)
    return cls


def register_static(cls: _Class) -> _Class:
    """Make the instances of a class nodes without children: part of a tree's structure.

    A decorator. The class must be hashable, and have an ``==`` of its own.
    """
    register_pytree_with_keys(cls, lambda node: ((), node), lambda node, _: node)
    return cls


def register_dataclass(
    nodetype: _Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> _Class:
    """Make the instances of a dataclass nodes of trees. Can be used as a decorator.

    Parameters
    ----------
    nodetype
        The dataclass, or another class whose constructor takes its fields by name.
    data_fields
        The fields that are children; those of a dataclass that are not `static` when omitted.
    meta_fields
        The fields that are kept as they are, and must be hashable. Given with ``data_fields`` or
        not at all.
    drop_fields
        Fields of a dataclass that are neither: its constructor gives them their defaults.

    Raises
    ------
    InvalidTypeError
        If the fields of a class that is no dataclass are missing, or one list of the two is.
    InvalidArgumentError
        If the fields are not those that the dataclass's constructor takes, each once, or the class
        is registered already.
    """
    if data_fields is None or meta_fields is None:
        data_fields, meta_fields = _own_fields(nodetype, data_fields, meta_fields, drop_fields)
    data, meta = tuple(data_fields), tuple(meta_fields)
    if dataclasses.is_dataclass(nodetype):
        _check_fields(nodetype, {*data, *meta}, drop_fields)
    if twice := {*data} & {*meta}:
        msg = f"data_fields and meta_fields must not overlap. Overlapping fields: {twice}."
        raise InvalidArgumentError(msg, nodetype=nodetype)
    default_registry.register_dataclass_node(nodetype, data, meta)
    return nodetype


def _own_fields(
    nodetype: Any, data_fields: Any, meta_fields: Any, drop_fields: Sequence[str]
) -> tuple[list[str], list[str]]:
    if data_fields is not None or meta_fields is not None:
        msg = (
            "register_dataclass: data_fields and meta_fields must both be specified when either "
            f"is specified. Got {data_fields=} {meta_fields=}."
        )
        raise InvalidTypeError(msg, nodetype=nodetype)
    if not dataclasses.is_dataclass(nodetype):
        msg = (
            "register_dataclass: data_fields and meta_fields are required when nodetype is not a "
            f"dataclass. Got {nodetype=}."
        )
        raise InvalidTypeError(msg, nodetype=nodetype)
    kept = [field for field in dataclasses.fields(nodetype) if field.name not in drop_fields]
    meta = [field.name for field in kept if field.metadata.get("static", False)]
    return [field.name for field in kept if field.name not in meta], meta


def _check_fields(nodetype: Any, given: set[str], drop_fields: Sequence[str]) -> None:
    taken = {field.name for field in dataclasses.fields(nodetype) if field.init} - {*drop_fields}
    if given == taken:
        return
    msg = (
        f"data_fields and meta_fields must include all dataclass fields of {nodetype.__qualname__} "
        "with init=True, and only them."
    )
    if missing := taken - given:
        msg += f" Missing fields: {missing}. Add them to drop_fields to leave them out."
    if unexpected := given - taken:
        msg += f" Unexpected fields: {unexpected}."
    raise InvalidArgumentError(msg, nodetype=nodetype)


def static(**options: Any) -> Any:
    """Return a field of a dataclass that `register_dataclass` takes for metadata.

    The options are those of `dataclasses.field`.
    """
    metadata = {"static": True, **(options.pop("metadata", None) or {})}
    return dataclasses.field(metadata=metadata, **options)


class Partial(functools.partial):  # type: ignore[type-arg]
    """A ``functools.partial`` that is a node of trees: its arguments are the children.

    The function is part of the tree's structure. A partial of a partial keeps the inner one's
    arguments there, where ``functools.partial`` would join them.
    """

    def __new__(cls, func: Any, /, *args: Any, **keywords: Any) -> Partial:
        """Bind arguments to a function."""
        boxed = _Boxed(func) if isinstance(func, functools.partial) else func
        return super().__new__(cls, boxed, *args, **keywords)


class _Boxed:
    """A function that ``functools.partial`` does not see is a partial; equal to what it holds."""

    def __init__(self, function: Any) -> None:
        self._function = function

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self._function(*args, **keywords)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, _Boxed):
            other = other._function
        return bool(self._function == other)

    def __hash__(self) -> int:
        return hash(self._function)

    def __repr__(self) -> str:
        return repr(self._function)


register_pytree_node(
    Partial,
    lambda partial: ((partial.args, partial.keywords), partial.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)
