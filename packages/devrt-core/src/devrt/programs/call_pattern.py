"""Calls of one structure, recognised and taken apart by code that is written for it.

To flatten a tree takes longer than to start a small program. A function is called with few
structures, and of Python's own containers a structure is recognised by a few comparisons.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from devrt.arrays import Array
from devrt.arrays.dispatch_key import key_of

__all__ = ["Matcher", "builder", "matcher"]

Matched = tuple[tuple[Any, ...], tuple[Any, ...]] | None
Matcher = Callable[[tuple[Any, ...], dict[str, Any]], Matched]
_INT32 = range(-(2**31), 2**31)
_MOST_LEAVES = 200


def matcher(tree: Any, statics: Sequence[tuple[Any, Any]]) -> Matcher | None:
    """Return what recognises calls of a structure; None where that takes the general way.

    Parameters
    ----------
    tree
        The structure of the arguments that are not static, as (positional, by name).
    statics
        Position or name of the static arguments, and a value.

    Returns
    -------
    callable or None
        Takes the arguments of a call by position and by name. Returns the leaves, and what decides
        which program they go to: keys of arrays, types of numbers, types and values of what is
        static. None for a call of another structure, or with other leaves than those.
    """
    made: Matcher | None = _Writer().matcher(tree, statics)
    return made


def builder(tree: Any) -> Callable[[Sequence[Any]], Any]:
    """Return what makes the tree of a structure of its leaves, given as a sequence."""
    writer = _Writer()
    text = writer.built(tree)
    if text is None or tree.num_leaves > _MOST_LEAVES:
        unflatten: Callable[[Sequence[Any]], Any] = tree.unflatten
        return unflatten
    made: Callable[[Sequence[Any]], Any] = eval(f"lambda r: {text}", dict(writer.names))
    return made


def _kind(x: Any) -> Any:
    """Return what decides which program a leaf goes to; None where the general way is needed."""
    kind = type(x)
    if kind is Array:
        return x._key or key_of(x)
    if kind is int:
        return int if x in _INT32 else None
    return kind if kind in (float, bool, complex) else None


class _Writer:
    """Code that is written for a structure, and the values that it names."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"Array": Array, "kind": _kind}
        self._lines: list[str] = []
        self._leaves: list[str] = []
        self._keys: list[str] = []
        self._count = 0
        self._has_statics = False

    def matcher(self, tree: Any, statics: Sequence[tuple[Any, Any]]) -> Any:
        """Return the function that recognises a call."""
        by_position, by_name = tree.children()
        places = dict(statics)
        total = len(by_position.children()) + sum(type(place) is int for place in places)
        names = self._keys_of(by_name)
        if tree.num_leaves > _MOST_LEAVES or names is None:
            return None
        named = [place for place in places if type(place) is str]
        self._line(f"if len(args) != {total} or len(named) != {len(names) + len(named)}: return")
        rest = iter(by_position.children())
        for i in range(total):
            if i in places:
                self._static(f"args[{i}]")
            elif not self._node(f"args[{i}]", next(rest)):
                return None
        pairs = dict(zip(names, by_name.children(), strict=True))
        for name in [*names, *named]:
            source = f"named[{self._named(name)}]"
            if name in places:
                self._static(source)
            elif not self._node(source, pairs[name]):
                return None
        return self._function()

    def built(self, tree: Any) -> str | None:
        """Return the expression of a tree, of leaves in order; None where there is none for it."""
        data = tree.node_data()
        if data is None:
            self._count += 1
            return f"r[{self._count - 1}]"
        if data[0] is type(None):
            return "None"
        parts = [self.built(child) for child in tree.children()]
        keys = self._keys_of(tree)
        if data[0] not in (tuple, list, dict) or None in parts:
            return None
        if keys is not None and data[0] is dict:
            pairs = zip(keys, parts, strict=True)
            return "{" + ", ".join(f"{self._named(key)}: {part}" for key, part in pairs) + "}"
        inner = ", ".join(map(str, parts))
        return f"[{inner}]" if data[0] is list else f"({inner},)" if parts else "()"

    def _keys_of(self, tree: Any) -> list[Any] | None:
        data = tree.node_data()
        return list(data[1]) if data is not None and data[0] is dict else None

    def _node(self, source: str, tree: Any) -> bool:
        """Write the recognition of a tree; return whether there is one for it."""
        data = tree.node_data()
        self._count += 1
        name = f"x{self._count}"
        self._line(f"{name} = {source}")
        if data is None:
            self._leaves.append(name)
            self._keys.append(f"k{name}")
            self._line(
                f"k{name} = {name}._key or kind({name}) if type({name}) is Array else kind({name})"
            )
            self._line(f"if k{name} is None: return")
            return True
        cls, keys = data[0], self._keys_of(tree)
        if cls is type(None):
            self._line(f"if {name} is not None: return")
            return True
        if cls not in (tuple, list, dict):
            return False
        children = tree.children()
        self._line(f"if type({name}) is not {cls.__name__}: return")
        self._line(f"if len({name}) != {len(children)}: return")
        places = map(self._named, keys) if keys is not None else map(str, range(len(children)))
        return all(
            self._node(f"{name}[{place}]", child)
            for place, child in zip(places, children, strict=True)
        )

    def _static(self, source: str) -> None:
        self._has_statics = True
        self._keys.append(f"type({source}), {source}")

    def _named(self, value: Any) -> str:
        if type(value) in (str, int):
            return repr(value)
        name = f"v{len(self.names)}"
        self.names[name] = value
        return name

    def _line(self, text: str) -> None:
        self._lines.append(text)

    def _function(self) -> Any:
        leaves = "".join(f"{name}, " for name in self._leaves)
        keys = "".join(f"{key}, " for key in self._keys)
        lines = ["def match(args, named):", " try:", *(f"  {line}" for line in self._lines)]
        # A static value without a hash is refused by the general way.
        lines += [
            f"  found = ({leaves}), ({keys})",
            "  hash(found[1])" if self._has_statics else "",
            "  return found",
            " except (KeyError, TypeError):",
            "  return None",
        ]
        scope = dict(self.names)
        exec("\n".join(lines), scope)
        return scope["match"]
