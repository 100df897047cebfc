"""Kinds of nodes: how the instances of a class are taken apart, checked and put together again."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from devrt._pytree.keys import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey
from devrt.errors import InvalidArgumentError

__all__ = [
    "LEAF",
    "NAMED_TUPLE",
    "Custom",
    "DataClass",
    "Flat",
    "Keyed",
    "Node",
    "NodeType",
    "builtin_types",
    "is_named_tuple",
    "mismatch",
    "sorted_keys",
    "too_deep",
]

Flat: TypeAlias = tuple[Sequence[Any], Any]
"""The children of a node, and what else it consists of."""

Keyed: TypeAlias = tuple[Sequence[tuple[Any, Any]], Any]
"""The same, each child with its key."""


class NodeType:
    """One class of nodes.

    Parameters
    ----------
    cls
        The class.
    """

    __slots__ = ("cls",)

    def __init__(self, cls: type) -> None:
        self.cls = cls

    def flatten(self, tree: Any) -> Flat:
        """Return the children of a node, and its data: what else makes it up."""
        raise NotImplementedError

    def flatten_with_keys(self, tree: Any) -> Keyed:
        """Return the children, each with its key, and the data."""
        children, data = self.flatten(tree)
        return [(SequenceKey(i), child) for i, child in enumerate(children)], data

    def unflatten(self, data: Any, children: list[Any]) -> Any:
        """Return the node of some data and children."""
        raise NotImplementedError

    def text(self, data: Any, children: list[str]) -> str:
        """Return the node as text, of the texts of its children."""
        raise NotImplementedError

    def children_like(self, data: Any, arity: int, tree: Any) -> Sequence[Any]:
        """Return the children of ``tree`` if it is a node of these data and as many children.

        Raises
        ------
        InvalidArgumentError
            If it is another node, or none.
        """
        name = self.cls.__name__
        if type(tree) is not self.cls:
            raise mismatch(f"Expected {name}, got {tree!r}.")
        children = self.flatten(tree)[0]
        if len(children) != arity:
            kind = name.capitalize()
            raise mismatch(f"{kind} arity mismatch: {len(children)} != {arity}; {name}: {tree!r}.")
        return children

    def public_data(self, data: Any) -> tuple[type, Any]:
        """Return the class and the data of a node, as JAX's ``PyTreeDef.node_data()`` has them."""
        return self.cls, data


Node: TypeAlias = tuple["NodeType | None", Any, tuple["Node", ...], int]
"""Kind, data, children and number of leaves. A tuple, as it is made for every node of every tree
that is put on a device, and compared by the interpreter."""

LEAF: Node = (None, None, (), 1)
"""Every leaf is this one object."""


class _Nothing(NodeType):
    __slots__ = ()

    def flatten(self, tree: Any) -> Flat:
        return (), None

    def unflatten(self, data: Any, children: list[Any]) -> None:
        return None

    def text(self, data: Any, children: list[str]) -> str:
        return "None"

    def children_like(self, data: Any, arity: int, tree: Any) -> Sequence[Any]:
        if tree is not None:
            raise mismatch(f"Expected None, got {tree!r}.")
        return ()


class _Tuple(NodeType):
    __slots__ = ()

    def flatten(self, tree: Any) -> Flat:
        return tree, None

    def unflatten(self, data: Any, children: list[Any]) -> tuple[Any, ...]:
        return tuple(children)

    def text(self, data: Any, children: list[str]) -> str:
        return f"({', '.join(children)}{',' if len(children) == 1 else ''})"


class _List(NodeType):
    __slots__ = ()

    def flatten(self, tree: Any) -> Flat:
        return tree, None

    def unflatten(self, data: Any, children: list[Any]) -> list[Any]:
        return children

    def text(self, data: Any, children: list[str]) -> str:
        return f"[{', '.join(children)}]"


class _Dict(NodeType):
    __slots__ = ()

    def flatten(self, tree: Any) -> Flat:
        keys = sorted_keys(tree)
        return list(map(tree.__getitem__, keys)), keys

    def flatten_with_keys(self, tree: Any) -> Keyed:
        keys = sorted_keys(tree)
        return [(DictKey(key), tree[key]) for key in keys], keys

    def unflatten(self, data: Any, children: list[Any]) -> dict[Any, Any]:
        return dict(zip(data, children))  # noqa: B905  strict doubles the time, and they fit

    def text(self, data: Any, children: list[str]) -> str:
        items = (f"{key!r}: {child}" for key, child in zip(data, children, strict=True))
        return f"{{{', '.join(items)}}}"

    def children_like(self, data: Any, arity: int, tree: Any) -> Sequence[Any]:
        if type(tree) is not dict:
            raise mismatch(f"Expected dict, got {tree!r}.")
        children, keys = self.flatten(tree)
        if keys != data:
            raise mismatch(
                f"Dict key mismatch; expected keys: {list(data)}; present keys: {list(keys)}."
            )
        return children

    def public_data(self, data: Any) -> tuple[type, Any]:
        return dict, list(data)


def sorted_keys(tree: dict[Any, Any]) -> tuple[Any, ...]:
    """Return the keys of a dict in their order, by which its children are listed."""
    try:
        return tuple(sorted(tree))
    except TypeError as error:
        msg = (
            f"Comparator raised exception while sorting pytree dictionary keys: {error}. The keys "
            f"of a dict that is a tree must be of one sortable type; these are {list(tree)!r:.200}."
        )
        raise InvalidArgumentError(msg) from error


class _NamedTuple(NodeType):
    """All named tuples, whatever their class: that is the data."""

    __slots__ = ()

    def flatten(self, tree: Any) -> Flat:
        return tree, type(tree)

    def flatten_with_keys(self, tree: Any) -> Keyed:
        fields = tree._fields
        if len(fields) != len(tree):
            msg = f"a named tuple has as many fields as elements, and {tree!r} has {fields!r}."
            raise InvalidArgumentError(msg)
        return [(GetAttrKey(n), child) for n, child in zip(fields, tree, strict=True)], type(tree)

    def unflatten(self, data: Any, children: list[Any]) -> Any:
        return data(*children)

    def text(self, data: Any, children: list[str]) -> str:
        return f"CustomNode(namedtuple[{data.__name__}], [{', '.join(children)}])"

    def children_like(self, data: Any, arity: int, tree: Any) -> Sequence[Any]:
        if not is_named_tuple(type(tree)):
            raise mismatch(f"Expected named tuple, got {tree!r}.")
        if len(tree) != arity:
            raise mismatch(f"Named tuple arity mismatch: {len(tree)} != {arity}; tuple: {tree!r}.")
        if type(tree) is not data:
            raise mismatch(f"Named tuple type mismatch: expected type: {data!r}, tuple: {tree!r}.")
        children: Sequence[Any] = tree
        return children

    def public_data(self, data: Any) -> tuple[type, Any]:
        return data, None


NAMED_TUPLE = _NamedTuple(tuple)


def is_named_tuple(cls: type) -> bool:
    """Return whether a class looks like a named tuple: nothing else tells."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


class Custom(NodeType):
    """A class that was registered with functions.

    Parameters
    ----------
    cls
        The class.
    flatten
        Returns the children and the data of an instance.
    unflatten
        Returns an instance of data and children.
    flatten_with_keys
        Returns pairs of keys and children, and the data; None for positions as keys.
    """

    __slots__ = ("_flatten", "_flatten_with_keys", "_unflatten")

    def __init__(
        self,
        cls: type,
        flatten: Callable[[Any], Any],
        unflatten: Callable[[Any, Any], Any],
        flatten_with_keys: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(cls)
        self._flatten = flatten
        self._unflatten = unflatten
        self._flatten_with_keys = flatten_with_keys

    def flatten(self, tree: Any) -> Flat:
        return _checked(self._flatten(tree), "to_iterable", "(children, aux_data)", "children")

    def flatten_with_keys(self, tree: Any) -> Keyed:
        if self._flatten_with_keys is None:
            children, data = self.flatten(tree)
            return [(FlattenedIndexKey(i), child) for i, child in enumerate(children)], data
        flat = self._flatten_with_keys(tree)
        form = "(key_leaf_pairs, aux_data)"
        pairs, data = _checked(flat, "to_iterable_with_keys", form, "key_leaf_pairs")
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2:
                msg = (
                    "The to_iterable_with_keys function for a custom PyTree node should return "
                    f"pairs of a key and a child, got {pair!r}."
                )
                raise InvalidArgumentError(msg, nodetype=self.cls)
        return pairs, data

    def unflatten(self, data: Any, children: list[Any]) -> Any:
        return self._unflatten(data, tuple(children))

    def text(self, data: Any, children: list[str]) -> str:
        return f"CustomNode({self.cls.__name__}[{data}], [{', '.join(children)}])"

    def children_like(self, data: Any, arity: int, tree: Any) -> Sequence[Any]:
        if type(tree) is not self.cls:
            raise mismatch(
                f"Custom node type mismatch: expected type: {self.cls!r}, value: {tree!r}."
            )
        children, found = self.flatten(tree)
        if found != data:
            raise mismatch(f"Mismatch custom node data: {data!r} != {found!r}; value: {tree!r}.")
        if len(children) != arity:
            raise mismatch(
                f"Custom type arity mismatch: {len(children)} != {arity}; value: {tree!r}."
            )
        return children


def _checked(flat: Any, function: str, form: str, what: str) -> tuple[Sequence[Any], Any]:
    """Return what a function of the user's gave, if it is a pair of an iterable and data."""
    rule = f"The {function} function for a custom PyTree node should return a {form} tuple"
    if not isinstance(flat, tuple) or len(flat) != 2:
        raise InvalidArgumentError(f"{rule}, got {flat!r}.")
    children, data = flat
    if not isinstance(children, Iterable):
        raise InvalidArgumentError(f"{rule} where '{what}' is iterable, got {flat!r}.")
    return children if isinstance(children, tuple | list) else tuple(children), data


class DataClass(Custom):
    """A class that was registered with the names of its fields.

    Parameters
    ----------
    cls
        The class; its constructor takes the fields by name.
    data_fields
        The children.
    meta_fields
        What else makes an instance up.
    """

    __slots__ = ("_data_fields", "_meta_fields")

    def __init__(
        self, cls: type, data_fields: tuple[str, ...], meta_fields: tuple[str, ...]
    ) -> None:
        super().__init__(cls, self._take, self._make, self._take_with_keys)
        self._data_fields = data_fields
        self._meta_fields = meta_fields

    def _take(self, tree: Any) -> Flat:
        children = [getattr(tree, name) for name in self._data_fields]
        return children, tuple([getattr(tree, name) for name in self._meta_fields])

    def _take_with_keys(self, tree: Any) -> Keyed:
        children, data = self._take(tree)
        keys = map(GetAttrKey, self._data_fields)
        return list(zip(keys, children, strict=True)), data

    def _make(self, data: Any, children: tuple[Any, ...]) -> Any:
        fields = dict(zip(self._meta_fields, data, strict=True))
        return self.cls(**fields, **dict(zip(self._data_fields, children, strict=True)))


def _take_ordered(tree: Any) -> Keyed:
    return [(DictKey(key), child) for key, child in tree.items()], tuple(tree)


def _take_default(tree: Any) -> Flat:
    keys = sorted_keys(tree)
    return [tree[key] for key in keys], (tree.default_factory, keys)


def _take_default_with_keys(tree: Any) -> Keyed:
    keys = sorted_keys(tree)
    return [(DictKey(key), tree[key]) for key in keys], (tree.default_factory, keys)


def builtin_types() -> dict[type, NodeType]:
    """Return the kinds of nodes that are there without a registration, but named tuples."""
    kinds: tuple[NodeType, ...] = (
        *(_Nothing(type(None)), _Tuple(tuple), _List(list), _Dict(dict)),
        Custom(
            collections.OrderedDict,
            lambda tree: (list(tree.values()), tuple(tree)),
            lambda keys, children: collections.OrderedDict(zip(keys, children, strict=True)),
            _take_ordered,
        ),
        Custom(
            collections.defaultdict,
            _take_default,
            lambda data, children: collections.defaultdict(
                data[0], zip(data[1], children, strict=True)
            ),
            _take_default_with_keys,
        ),
    )
    return {kind.cls: kind for kind in kinds}


def mismatch(what: str) -> InvalidArgumentError:
    """Return the error for a tree that has not the structure that it is compared with."""
    return InvalidArgumentError(f"{what} Pass a tree of the same structure.")


def too_deep() -> InvalidArgumentError:
    """Return the error for a tree that cannot be gone through."""
    msg = (
        "the tree of values contains itself, or is nested more deeply than Python goes. Pass a "
        "flatter tree, for example one list of its values."
    )
    return InvalidArgumentError(msg)
