"""The structure of a tree, without its leaves."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from devrt._pytree.node_types import LEAF, Node, too_deep
from devrt.errors import InvalidArgumentError

if TYPE_CHECKING:
    from devrt._pytree.registry import PyTreeRegistry

_P = ParamSpec("_P")
_R = TypeVar("_R")

__all__ = ["PyTreeDef"]


def _refusing_too_deep(method: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return a method that says of a structure nested more deeply than Python goes that it is."""

    @functools.wraps(method)
    def refusing(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return method(*args, **kwargs)
        except RecursionError as error:
            raise too_deep() from error

    return refusing


class PyTreeDef:
    """The structure of a tree: its nodes, their data, and how many leaves they have.

    Made by `devrt.tree_util.tree_structure` and its like. Equal ones hash alike, and pickle where
    the classes in them are registered by the time that they are read.
    """

    __slots__ = ("_registry", "_root")

    def __init__(self, registry: PyTreeRegistry, root: Node) -> None:
        self._registry = registry
        self._root = root

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return self._root[3]

    @property
    @_refusing_too_deep
    def num_nodes(self) -> int:
        """The number of nodes, leaves counted."""
        return _count(self._root)

    def children(self) -> list[PyTreeDef]:
        """Return the structures of the root's children."""
        return [PyTreeDef(self._registry, child) for child in self._root[2]]

    def node_data(self) -> tuple[type, Any] | None:
        """Return the class of the root and its data; None of a leaf."""
        kind, data, _, _ = self._root
        return None if kind is None else kind.public_data(data)

    @_refusing_too_deep
    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with these leaves.

        Raises
        ------
        InvalidArgumentError
            If there are not as many as the structure has.
        """
        given = self._as_many(leaves)
        return _build(self._root, iter(given))

    @_refusing_too_deep
    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the parts of a tree that stand where this structure has leaves.

        Raises
        ------
        InvalidArgumentError
            If the tree has other nodes above them.
        """
        parts: list[Any] = []
        _take_up_to(self._root, tree, parts)
        return parts

    @_refusing_too_deep
    def compose(self, inner: PyTreeDef) -> PyTreeDef:
        """Return the structure with another one in the place of each leaf."""
        return PyTreeDef(self._registry, _compose(self._root, inner._root))

    @_refusing_too_deep
    def walk(
        self,
        f_node: Callable[[tuple[Any, ...], Any], Any],
        f_leaf: Callable[[Any], Any] | None,
        leaves: Iterable[Any],
    ) -> Any:
        """Return what ``f_node`` makes of the root's children and data, theirs made so before.

        Parameters
        ----------
        f_node
            Called with the results of the children of a node, and the node's data.
        f_leaf
            Called with each leaf; None takes the leaf itself.
        leaves
            As many as the structure has.
        """
        return _walk(self._root, f_node, f_leaf, iter(self._as_many(leaves)))

    @_refusing_too_deep
    def from_iterable_tree(self, tree: Any) -> Any:
        """Return the tree of this structure whose children are given as nested iterables."""
        return _from_iterables(self._root, tree)

    @_refusing_too_deep
    def serialize_using_proto(self) -> bytes:
        """Return the structure as JAX's message ``PyTreeDefProto``.

        Raises
        ------
        InvalidArgumentError
            If a node is no None, list, tuple or dict of text keys.
        """
        from devrt._pytree.serialized import serialize

        return serialize(self._root)

    @staticmethod
    def deserialize_using_proto(registry: PyTreeRegistry, data: bytes) -> PyTreeDef:
        """Read what `serialize_using_proto` wrote, of this or JAX's library."""
        from devrt._pytree.serialized import deserialize

        return PyTreeDef(registry, deserialize(data, registry))

    @staticmethod
    def from_node_data_and_children(
        registry: PyTreeRegistry, node_data: tuple[type, Any] | None, children: Iterable[PyTreeDef]
    ) -> PyTreeDef:
        """Return the structure of what `node_data` and `children` gave."""
        if node_data is None:
            return PyTreeDef(registry, LEAF)
        roots = tuple(child._root for child in children)
        return PyTreeDef(registry, registry.node(*node_data, roots))

    @_refusing_too_deep
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PyTreeDef):
            return NotImplemented
        try:
            return self._root == other._root
        except RecursionError:
            raise
        except Exception as error:
            raise _incomparable(self._root, other._root) from error

    @_refusing_too_deep
    def __hash__(self) -> int:
        return hash(_outline(self._root))  # data need not hash

    @_refusing_too_deep
    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._registry, _pickled(self._root))

    @_refusing_too_deep
    def __repr__(self) -> str:
        return f"PyTreeDef({_text(self._root)})"

    def _as_many(self, leaves: Iterable[Any]) -> list[Any] | tuple[Any, ...]:
        count = self.num_leaves
        given = leaves
        if not isinstance(given, list | tuple):  # not more than needed: it may have no end
            given = list(itertools.islice(given, count + 1))
        if len(given) < count:
            msg = f"Too few leaves for PyTreeDef; expected {count}, got {len(given)}, for {self}."
            raise InvalidArgumentError(msg)
        if len(given) > count:
            msg = f"Too many leaves for PyTreeDef; expected {count}, for {self}."
            raise InvalidArgumentError(msg)
        return given


def _count(node: Node) -> int:
    return 1 + sum(map(_count, node[2]))


def _build(node: Node, leaves: Iterator[Any]) -> Any:
    kind, data, children, _ = node
    if kind is None:
        return next(leaves)
    if children.count(LEAF) == len(children):  # mostly, and then without a call for each
        return kind.unflatten(data, list(itertools.islice(leaves, len(children))))
    return kind.unflatten(data, [_build(child, leaves) for child in children])


def _take_up_to(node: Node, tree: Any, parts: list[Any]) -> None:
    kind, data, children, _ = node
    if kind is None:
        parts.append(tree)
        return
    for child, part in zip(children, kind.children_like(data, len(children), tree), strict=True):
        _take_up_to(child, part, parts)


def _compose(node: Node, inner: Node) -> Node:
    kind, data, children, count = node
    if kind is None:
        return inner
    return kind, data, tuple(_compose(child, inner) for child in children), count * inner[3]


def _walk(node: Node, f_node: Any, f_leaf: Any, leaves: Iterator[Any]) -> Any:
    kind, data, children, _ = node
    if kind is None:
        leaf = next(leaves)
        return leaf if f_leaf is None else f_leaf(leaf)
    made = tuple([_walk(child, f_node, f_leaf, leaves) for child in children])
    return f_node(made, list(data) if kind.cls is dict else data)


def _from_iterables(node: Node, tree: Any) -> Any:
    kind, data, children, _ = node
    if kind is None:
        return tree
    parts = list(tree)
    if len(parts) != len(children):
        msg = f"Arity mismatch between trees: {len(parts)} children for {_text(node)}."
        raise InvalidArgumentError(msg)
    return kind.unflatten(data, list(map(_from_iterables, children, parts)))


def _text(node: Node) -> str:
    kind, data, children, _ = node
    return "*" if kind is None else kind.text(data, list(map(_text, children)))


def _outline(node: Node) -> tuple[Any, ...]:
    return node[0], tuple(map(_outline, node[2]))


def _incomparable(a: Node, b: Node) -> InvalidArgumentError:
    """Return the error for two structures whose data cannot be compared, naming the class."""
    where = ""
    for mine, theirs in zip(_nodes(a), _nodes(b), strict=False):
        try:
            bool(mine[1] == theirs[1])
        except Exception:  # noqa: BLE001  data are the user's
            where = f" node of type {mine[0] and mine[0].cls!r}"
            break
    msg = (
        f"Exception raised while checking equality of metadata fields of pytree{where}. Make "
        "metadata hashable, with an == that gives a bool; arrays cannot be metadata."
    )
    return InvalidArgumentError(msg)


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node[2]:
        yield from _nodes(child)


def _pickled(node: Node) -> tuple[Any, ...]:
    kind, data, children, _ = node
    return () if kind is None else (*kind.public_data(data), tuple(map(_pickled, children)))


def _rebuild(registry: PyTreeRegistry, pickled: tuple[Any, ...]) -> PyTreeDef:
    def rebuilt(pickled: tuple[Any, ...]) -> Node:
        if not pickled:
            return LEAF
        cls, data, children = pickled
        return registry.node(cls, data, tuple(map(rebuilt, children)))

    return PyTreeDef(registry, rebuilt(pickled))
