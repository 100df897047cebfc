"""What ``jax.export.Exported.serialize()`` writes, read without JAX.

Source: the numbers of the fields in JAX's schema, serialization.fbs, which grows at its end: what
every version since 0.4.30 wrote is read, and what is not known is passed over.
"""

from __future__ import annotations

import contextlib
import json
from collections import OrderedDict
from enum import IntEnum

from devrt.errors import InvalidArgumentError
from devrt.programs.exported import Exported
from devrt.programs.trees import LEAF, NONE, Node, Tree, named_fields
from devrt.wire.flatbuffers import Table, root

__all__ = ["is_exported", "read_exported"]

_MAGIC = b"ML\xefR"
_LEAST_FIELDS = 16  # of the first version


class _Field(IntEnum):
    """The fields of an export that are read."""

    NAME = 1
    IN_TREE = 2
    IN_AVALS = 3
    OUT_TREE = 4
    PLATFORMS = 9
    ORDERED_EFFECTS = 10
    DISABLED_CHECKS = 12
    MODULE = 13
    CONVENTION = 14
    KEPT = 15
    AVALS = 19  # each once, since 0.10
    IN_AVAL_NUMBERS = 22


class _TreeField(IntEnum):
    KIND = 0
    CHILDREN = 1
    KEYS = 2
    NAME = 3
    DATA = 4


_LEAF, _NONE, _TUPLE, _LIST, _DICT, _CUSTOM = range(6)
_SHAPE = 1  # of an abstract value
_PLATFORM_CHECK = 0  # kind of a disabled check


def is_exported(data: bytes) -> bool:
    """Return whether some bytes are an export, as far as their beginning tells."""
    with contextlib.suppress(InvalidArgumentError):
        return root(data).num_fields >= _LEAST_FIELDS
    return False


def read_exported(data: bytes) -> Exported:
    """Read an export.

    Raises
    ------
    InvalidArgumentError
        If the bytes were cut or damaged.
    """
    try:
        return _read(root(data), len(data))
    except (InvalidArgumentError, RecursionError) as error:
        why = getattr(error, "message", "its trees are nested too deep")
        msg = (
            f"what jax.export serialised cannot be read: {why} Write what serialize() returns to "
            "the file whole, in binary mode, or export the function again."
        )
        raise InvalidArgumentError(msg, operation="load_program") from error


def _read(table: Table, size: int) -> Exported:
    code = bytes(table.data(_Field.MODULE))
    if not code.startswith(_MAGIC):
        raise InvalidArgumentError("there is no program in it.")
    trees = _Trees(size)
    return Exported(
        name=table.text(_Field.NAME),
        code=code,
        in_tree=trees.read(table.table(_Field.IN_TREE)),
        out_tree=trees.read(table.table(_Field.OUT_TREE)),
        shapes=tuple(_shape(aval) for aval in _in_avals(table)),
        kept=tuple(table.numbers(_Field.KEPT, "H")),
        platforms=tuple(table.texts(_Field.PLATFORMS)),
        is_for_any_platform=_PLATFORM_CHECK
        in [check.number(0) for check in table.tables(_Field.DISABLED_CHECKS)],
        convention=table.number(_Field.CONVENTION, "H"),
        ordered_effects=tuple(each.text(0) for each in table.tables(_Field.ORDERED_EFFECTS)),
    )


def _in_avals(table: Table) -> list[Table]:
    unique, numbers = table.tables(_Field.AVALS), table.numbers(_Field.IN_AVAL_NUMBERS, "I")
    if not numbers:
        return table.tables(_Field.IN_AVALS)
    if max(numbers) >= len(unique):
        raise InvalidArgumentError("an argument is described by what is not there.")
    return [unique[number] for number in numbers]


def _shape(aval: Table) -> tuple[int | str, ...]:
    return tuple(int(size) if size.isdecimal() else size for size in aval.texts(_SHAPE))


class _Trees:
    """Reads trees: no more nodes than there are bytes, however they refer to each other."""

    def __init__(self, most: int) -> None:
        self._left = most

    def read(self, table: Table | None) -> Tree:
        if table is None:
            raise InvalidArgumentError("a tree of its arguments or results is missing.")
        return Tree(self._node(table))

    def _node(self, table: Table) -> Node:
        self._left -= 1
        if self._left < 0:
            raise InvalidArgumentError("its trees have more nodes than it has bytes.")
        kind = table.number(_TreeField.KIND)
        children = tuple(self._node(child) for child in table.tables(_TreeField.CHILDREN))
        if kind == _DICT:
            keys = tuple(table.texts(_TreeField.KEYS))
            return Node(dict, children, _counted(keys, children))
        if kind == _CUSTOM:
            return _custom(table, children)
        plain = {_LEAF: None, _NONE: type(None), _TUPLE: tuple, _LIST: list}
        if kind not in plain:
            raise InvalidArgumentError(f"it has a tree's node of the unknown kind {kind}.")
        if kind in (_LEAF, _NONE):
            return LEAF if kind == _LEAF else NONE
        return Node(plain[kind], children)


def _counted(keys: tuple[str, ...], children: tuple[Node, ...]) -> tuple[str, ...]:
    if len(keys) != len(children) or len(set(keys)) != len(keys):
        raise InvalidArgumentError("a dict has not one name for each of its values.")
    return keys


def _custom(table: Table, children: tuple[Node, ...]) -> Node:
    """Return the node of a registered class: a dict in order, named fields, or any other one."""
    name = table.text(_TreeField.NAME)
    try:
        keys = json.loads(bytes(table.data(_TreeField.DATA)))
    except ValueError:
        keys = None
    is_names = isinstance(keys, list) and all(isinstance(key, str) for key in keys)
    if is_names and len(set(keys)) == len(keys) == len(children):
        if name == "collections.OrderedDict":
            return Node(OrderedDict, children, tuple(keys))
        with contextlib.suppress(ValueError):  # what are no names of fields
            return named_fields(name, keys, children)
    return Node(Node, children, (), name)
