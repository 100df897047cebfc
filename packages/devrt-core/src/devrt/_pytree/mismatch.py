"""Where two trees differ that were to have one structure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from devrt._pytree.keys import KeyPath, keystr
from devrt._pytree.registry import default_registry
from devrt.errors import InvalidArgumentError

__all__ = ["equality_errors", "first_prefix_error", "prefix_differences", "prefix_errors"]

_IsLeaf = Callable[[Any], Any] | None
_Named = Callable[[str], InvalidArgumentError]
_Difference = tuple[KeyPath, str, tuple[str, ...]]


def prefix_errors(prefix_tree: Any, full_tree: Any, is_leaf: _IsLeaf = None) -> list[_Named]:
    """Return, for each place where a tree is no prefix of another, a function that makes the error.

    The function takes what the message calls the prefix.
    """
    return [_named(*each) for each in prefix_differences(prefix_tree, full_tree, is_leaf)]


def first_prefix_error(
    prefix_tree: Any, full_tree: Any, is_leaf: _IsLeaf, name: str
) -> InvalidArgumentError | None:
    """Return the error of the first place where a tree is no prefix of another; None if it is."""
    first = next(prefix_differences(prefix_tree, full_tree, is_leaf), None)
    return None if first is None else _named(*first)(name)


def prefix_differences(prefix: Any, full: Any, is_leaf: _IsLeaf = None) -> Iterator[_Difference]:
    """Yield each place where a tree is no prefix of another: path, in what, what each is there."""
    return _prefix_differences((), prefix, full, is_leaf)


def _named(path: KeyPath, what: str, facts: tuple[str, ...]) -> _Named:
    return lambda name: InvalidArgumentError(
        f"pytree structure error: different {what} at key path\n"
        f"    {name}{keystr(path)}\n"
        f"At that key path {name} has\n    {facts[0]}\n"
        f"and the tree that it is to be a prefix of\n    {facts[1]}{''.join(facts[2:])}.\n"
        "Pass trees that have the same nodes down to the leaves of the prefix.",
        path=path,
    )


def _prefix_differences(
    path: KeyPath, prefix: Any, full: Any, is_leaf: _IsLeaf
) -> Iterator[_Difference]:
    # A leaf is a prefix of every tree.
    if not default_registry.is_node(type(prefix)) or (is_leaf is not None and is_leaf(prefix)):
        return
    what, facts = _difference(prefix, full)
    if what:
        yield path, what, facts
        return
    pairs = zip(_keyed(prefix), _keyed(full), strict=True)
    for (key, mine), (_, theirs) in pairs:
        yield from _prefix_differences((*path, key), mine, theirs, is_leaf)


def _difference(a: Any, b: Any) -> tuple[str, tuple[str, ...]]:
    """Return in what two nodes differ, children apart, and what each is; nothing if in nothing."""
    if type(a) is not type(b):
        theirs_is = f"one of type {type(b)}" if default_registry.is_node(type(b)) else "a leaf"
        return "types", (f"a subtree of type {type(a)}", theirs_is)
    if isinstance(a, list | tuple) and len(a) != len(b):
        name = type(a).__name__
        return f"lengths of {name}", (f"{name} of length {len(a)}", f"one of length {len(b)}")
    mine, theirs = _keyed(a), _keyed(b)
    if len(mine) != len(theirs):
        facts = tuple(f"{type(a)} with {len(k)} children: {_keys(k)}" for k in (mine, theirs))
        return "numbers of pytree children", (*facts, *_key_difference(mine, theirs))
    data, other = default_registry.flatten_one_level(a), default_registry.flatten_one_level(b)
    assert data is not None
    assert other is not None
    if data[1] != other[1] and isinstance(a, dict):
        facts = tuple(f"a dict with the keys {_keys(k)}" for k in (mine, theirs))
        return "pytree metadata", (*facts, *_key_difference(mine, theirs))
    if data[1] != other[1]:
        facts = tuple(f"{type(a)} with metadata {found}" for found in (data[1], other[1]))
        return "pytree metadata", facts
    return "", ()


def _keyed(tree: Any) -> list[tuple[Any, Any]]:
    found = default_registry.flatten_one_level_with_keys(tree)
    assert found is not None
    return list(found[0])


def _keys(pairs: list[tuple[Any, Any]]) -> str:
    return " ".join(str(key) for key, _ in pairs)


def _key_difference(mine: list[tuple[Any, Any]], theirs: list[tuple[Any, Any]]) -> tuple[str, ...]:
    try:
        keys = {key for key, _ in mine} ^ {key for key, _ in theirs}
    except TypeError:  # keys of the user's own may not hash
        return ()
    shown = " ".join(sorted(map(str, keys)))
    return (f",\nso the symmetric difference on key sets is\n    {shown}",)


def equality_errors(
    tree1: Any, tree2: Any, is_leaf: _IsLeaf = None
) -> Iterator[tuple[KeyPath, str, str, str]]:
    """Yield each place where two trees differ in structure: path, one, the other, and in what."""
    yield from _equality_errors((), tree1, tree2, is_leaf)


def _equality_errors(
    path: KeyPath, a: Any, b: Any, is_leaf: _IsLeaf
) -> Iterator[tuple[KeyPath, str, str, str]]:
    leaves = [not default_registry.is_node(type(x)) or bool(is_leaf and is_leaf(x)) for x in (a, b)]
    if all(leaves):
        return
    if any(leaves):
        yield path, str(type(a)), str(type(b)), "one of them is a leaf"
        return
    what, facts = _difference(a, b)
    if what:
        yield path, facts[0], facts[1], f"the {what} differ"
        return
    for (key, mine), (_, theirs) in zip(_keyed(a), _keyed(b), strict=True):
        yield from _equality_errors((*path, key), mine, theirs, is_leaf)
