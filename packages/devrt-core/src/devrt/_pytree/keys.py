"""Keys: how a child is reached from its parent, by JAX's names."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "SequenceKey",
    "keystr",
]


@dataclasses.dataclass(frozen=True, slots=True)
class SequenceKey:
    """The position of a child in a list or tuple.

    Attributes
    ----------
    idx : int
        The position.
    """

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx}]"

    def __hash__(self) -> int:
        return hash((SequenceKey, self.idx))


@dataclasses.dataclass(frozen=True, slots=True)
class DictKey:
    """The key of a child in a dict.

    Attributes
    ----------
    key
        The dict's own key.
    """

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def __hash__(self) -> int:
        return hash((DictKey, self.key))


@dataclasses.dataclass(frozen=True, slots=True)
class GetAttrKey:
    """The attribute that a child is: a field of a named tuple or of a dataclass.

    Attributes
    ----------
    name : str
        The attribute's name.
    """

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def __hash__(self) -> int:
        return hash((GetAttrKey, self.name))


@dataclasses.dataclass(frozen=True, slots=True)
class FlattenedIndexKey:
    """The position of a child of a class that was registered without keys.

    Attributes
    ----------
    key : int
        The position among the children.
    """

    key: int

    def __str__(self) -> str:
        return f"[<flat index {self.key}>]"

    def __hash__(self) -> int:
        return hash((FlattenedIndexKey, self.key))


KeyEntry: TypeAlias = Any
"""A key: one of the four classes here, or whatever a class was registered with."""

KeyPath: TypeAlias = tuple[KeyEntry, ...]
"""The keys from the root of a tree to a leaf."""


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """Return a path as text, for example ``['layer'][0].bias``.

    Parameters
    ----------
    keys
        The keys from the root on.
    simple
        Write the keys' values only: ``layer0bias``, where ``0`` may be a position or a key.
    separator
        What stands between two keys.
    """
    return separator.join(map(_simple if simple else str, keys))


def _simple(key: KeyEntry) -> str:
    match key:
        case SequenceKey(value) | DictKey(value) | GetAttrKey(value) | FlattenedIndexKey(value):
            return str(value)
        case _:
            return str(key)
