"""Random trees, given to jax.tree_util and devrt.tree_util: the same leaves, texts and errors."""

from __future__ import annotations

import collections
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt import tree_util as ours

# Read when jax is imported; not left for other tests to see.
with pytest.MonkeyPatch.context() as _environ:
    _environ.setenv("JAX_PLATFORMS", os.environ.get("JAX_PLATFORMS", "cpu"))
    theirs = pytest.importorskip("jax.tree_util")

Point = collections.namedtuple("Point", "x y")


class Box:
    def __init__(self, *content):
        self.content = content

    def __eq__(self, other):
        return type(self) is type(other) and self.content == other.content


class KeyedBox(Box):
    pass


for _library in (ours, theirs):
    _library.register_pytree_node(Box, lambda b: (b.content, len(b.content)), lambda _, c: Box(*c))

    def _with_keys(box, library=_library):
        keys = map(library.GetAttrKey, "abcdef")
        return tuple(zip(keys, box.content, strict=False)), len(box.content)

    _library.register_pytree_with_keys(KeyedBox, _with_keys, lambda _, c: KeyedBox(*c))

_LEAVES = st.one_of(st.integers(0, 9), st.text("ab", max_size=2), st.floats(0, 1))
_KEYS = st.one_of(st.text("abc", min_size=1, max_size=2), st.text("xyz", min_size=1, max_size=2))


def _containers(children):
    few = st.lists(children, max_size=3)
    items = st.dictionaries(_KEYS, children, max_size=3)
    return st.one_of(
        few,
        few.map(tuple),
        items,
        items.map(collections.OrderedDict),
        items.map(lambda d: collections.defaultdict(int, d)),
        st.builds(Point, children, children),
        few.map(lambda c: Box(*c)),
        few.map(lambda c: KeyedBox(*c)),
    )


TREES = st.recursive(st.one_of(_LEAVES, st.none()), _containers, max_leaves=12)


@given(TREES)
def test_leaves_structures_and_paths(tree):
    (a, b), (c, d) = ours.tree_flatten(tree), theirs.tree_flatten(tree)
    assert a == c
    assert str(b) == str(d)
    assert (b.num_leaves, b.num_nodes) == (d.num_leaves, d.num_nodes)
    assert b.unflatten(a) == d.unflatten(c)
    assert list(map(str, b.children())) == list(map(str, d.children()))
    mine, yours = ours.tree_leaves_with_path(tree), theirs.tree_leaves_with_path(tree)
    for simple in (False, True):
        assert [(ours.keystr(p, simple=simple), v) for p, v in mine] == [
            (theirs.keystr(p, simple=simple), v) for p, v in yours
        ]
    assert repr([p for p, _ in mine]) == repr([p for p, _ in yours])


@given(TREES, TREES)
def test_equality_and_prefixes(first, second):
    mine, yours = ours.tree_structure, theirs.tree_structure
    assert (mine(first) == mine(second)) == (yours(first) == yours(second))
    answers = []
    for library in (ours, theirs):
        try:
            answers.append(library.tree_map(lambda *xs: xs, first, second))
        except (ValueError, TypeError) as error:
            answers.append((type(error) is not None, "refused"))
    assert answers[0] == answers[1]


@given(TREES, st.integers(0, 3))
def test_is_leaf_is_called_alike(tree, depth):
    def is_leaf(x):
        return isinstance(x, list | Point)

    assert ours.tree_leaves(tree, is_leaf) == theirs.tree_leaves(tree, is_leaf)
    mine = ours.tree_leaves_with_path(tree, lambda p, _: len(p) >= depth, is_leaf_takes_path=True)
    yours = theirs.tree_leaves_with_path(
        tree, lambda p, _: len(p) >= depth, is_leaf_takes_path=True
    )
    assert [value for _, value in mine] == [value for _, value in yours]


@given(TREES)
def test_messages_of_one_read_as_those_of_the_other(tree):
    structure = theirs.tree_structure(tree)
    if not hasattr(structure, "serialize_using_proto"):
        pytest.skip("this jax writes no messages of structures")
    try:
        expected = structure.serialize_using_proto()
    except ValueError:
        with pytest.raises(ValueError, match="not supported"):
            ours.tree_structure(tree).serialize_using_proto()
        return
    read = ours.PyTreeDef.deserialize_using_proto(ours.default_registry, expected)
    assert read == ours.tree_structure(tree)
    assert ours.tree_structure(tree).serialize_using_proto() == expected
