"""The trees of values that an exported function takes and gives, as its exporter wrote them down.

They are described without the exporter's library, with classes that are not here and in the
exporter's order, which `devrt.tree_util` need not have.
"""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from collections.abc import Iterator, Sequence
from typing import Any

from devrt._pytree.registry import default_registry

__all__ = ["LEAF", "NONE", "MismatchError", "Node", "OpaqueTree", "Tree", "named_fields"]


class MismatchError(Exception):
    """A value is no tree of the structure that it must have; where, and how it differs."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem


@dataclasses.dataclass(frozen=True, slots=True)
class Node:
    """A value in a tree, and what it is made of.

    Attributes
    ----------
    kind : type or None
        tuple, list, dict, OrderedDict, NoneType, a class of named tuples, or Node for a class of
        somebody else's; None for a leaf.
    children : tuple of Node
        What it holds, in the exporter's order.
    keys : tuple
        The keys of a dict, the fields of a named tuple.
    name : str
        What somebody else's class is called.
    """

    kind: type | None
    children: tuple[Node, ...] = ()
    keys: tuple[Any, ...] = ()
    name: str = ""

    def build(self, leaves: Iterator[Any]) -> Any:
        """Return the value with some leaves; of somebody else's class a tuple of what it holds."""
        if self.kind is None:
            return next(leaves)
        if self.kind is type(None):
            return None
        parts = [child.build(leaves) for child in self.children]
        if issubclass(self.kind, dict):
            return self.kind(zip(self.keys, parts, strict=True))
        if self.kind is Node:
            return tuple(parts)
        make: Any = self.kind
        return make(*parts) if _is_named(make) else make(parts)

    def take(self, value: Any, path: str, leaves: list[Any]) -> None:
        """Add the leaves of a value to a list.

        Raises
        ------
        MismatchError
            If the value is not made as the node is.
        """
        if self.kind is None:
            leaves.append(value)
            return
        for child, part, step in zip(
            self.children, self._parts(value, path), self._steps(), strict=True
        ):
            child.take(part, path + step, leaves)

    def paths(self, path: str = "") -> Iterator[str]:
        """Yield where each leaf stands, as Python code would reach it."""
        if self.kind is None:
            yield path
        for child, step in zip(self.children, self._steps(), strict=True):
            yield from child.paths(path + step)

    def __str__(self) -> str:
        """Return it as Python would show the value, with ``*`` for each leaf."""
        if self.kind is None or self.kind is type(None):
            return "*" if self.kind is None else "None"
        parts = list(map(str, self.children))
        if issubclass(self.kind, dict):
            pairs = zip(self.keys, parts, strict=True)
            shown = f"{{{', '.join(f'{key!r}: {part}' for key, part in pairs)}}}"
            return shown if self.kind is dict else f"{self.kind.__name__}({shown})"
        if self.kind is list:
            return f"[{', '.join(parts)}]"
        if self.keys:
            pairs = zip(self.keys, parts, strict=True)
            parts = [f"{key}={part}" for key, part in pairs]
        comma = "," * (self.kind is tuple and len(parts) == 1)
        return f"{self.name.rpartition('.')[2]}({', '.join(parts)}{comma})"

    def _steps(self) -> list[str]:
        if self.kind is not None and _is_named(self.kind):
            return [f".{field}" for field in self.keys]
        return [f"[{key!r}]" for key in self.keys or range(len(self.children))]

    def _parts(self, value: Any, path: str) -> Sequence[Any]:
        if self.kind is type(None):
            if value is not None:
                raise MismatchError(path, f"must be None, and is {_kind(value)}")
            return ()
        assert self.kind is not None
        if issubclass(self.kind, dict):
            return self._values(value, path)
        parts = self._items(value, path)
        if len(parts) != len(self.children):
            problem = f"has {len(parts)} elements, and must have {len(self.children)}"
            raise MismatchError(path, problem)
        return parts

    def _values(self, value: Any, path: str) -> list[Any]:
        if not isinstance(value, dict):
            raise MismatchError(path, f"must be a dict, and is {_kind(value)}")
        missing = [key for key in self.keys if key not in value]
        if missing or len(value) > len(self.keys):
            raise MismatchError(path, self._wrong_keys(missing, value.keys() - set(self.keys)))
        return [value[key] for key in self.keys]

    def _wrong_keys(self, missing: list[Any], extra: set[Any]) -> str:
        problems = [f"lacks the keys {missing}"] if missing else []
        if extra:
            shown = sorted(extra, key=str)
            problems.append(f"has the keys {shown}, which are not among those it must have")
        return " and ".join(problems)

    def _items(self, value: Any, path: str) -> Sequence[Any]:
        assert self.kind is not None
        if _is_named(self.kind):
            is_like = isinstance(value, tuple) and getattr(value, "_fields", None) == self.keys
            wanted = f"a named tuple {self.kind.__name__} of {', '.join(self.keys)}"
        elif self.kind is Node:
            return self._foreign_items(value, path)
        else:
            is_like = isinstance(value, self.kind) and not _is_named(type(value))
            wanted = f"a {self.kind.__name__}"
        if not is_like:
            raise MismatchError(path, f"must be {wanted}, and is {_kind(value)}")
        items: Sequence[Any] = value
        return items

    def _foreign_items(self, value: Any, path: str) -> Sequence[Any]:
        if isinstance(value, tuple | list):
            return value
        found = default_registry.flatten_one_level(value)
        if found is None:
            raise MismatchError(
                path,
                f"must be a tuple of the {len(self.children)} children of {self.name}, or of a "
                f"class registered with devrt.tree_util, and is {_kind(value)}",
            )
        return list(found[0])


LEAF = Node(None)
NONE = Node(type(None))


def named_fields(name: str, fields: Sequence[str], children: tuple[Node, ...]) -> Node:
    """Return the node of a named tuple of a class that is not here; one like it is made."""
    make: Any = namedtuple
    cls = make(name.rpartition(".")[2] or "Fields", fields)
    return Node(cls, children, tuple(fields), name)


def _is_named(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _kind(value: Any) -> str:
    return "None" if value is None else f"of type {type(value).__name__}"


class Tree:
    """A tree of values by its nodes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.num_leaves = sum(1 for _ in node.paths())

    def flatten(self, value: Any) -> list[Any]:
        """Return the leaves of a value.

        Raises
        ------
        MismatchError
            If the value is no such tree.
        """
        leaves: list[Any] = []
        self.node.take(value, "", leaves)
        return leaves

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Return the value with some leaves."""
        return self.node.build(iter(leaves))

    def __repr__(self) -> str:
        return str(self.node)


class OpaqueTree:
    """A tree with classes that only the exporter's library knows: a tree definition of its own.

    Parameters
    ----------
    definition
        Has ``flatten_up_to``, ``unflatten`` and ``num_leaves``, as JAX's have.
    """

    def __init__(self, definition: Any) -> None:
        self._definition = definition
        self.num_leaves: int = definition.num_leaves
        self.node: Node | None = None

    def flatten(self, value: Any) -> list[Any]:
        """Return the leaves of a value; raises `MismatchError` if it is no such tree."""
        try:
            found: list[Any] = self._definition.flatten_up_to(value)
        except (TypeError, ValueError) as error:
            why = str(error).partition(", value:")[0].partition("\n")[0]
            raise MismatchError("", f"do not match: {why}") from error
        return found

    def unflatten(self, leaves: Sequence[Any]) -> Any:
        """Return the value with some leaves."""
        return self._definition.unflatten(leaves)

    def __repr__(self) -> str:
        return str(self._definition)
