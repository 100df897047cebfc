"""Trees that exporters write down: taken apart, put together, and what does not match."""

from __future__ import annotations

import collections

import pytest

import devrt.tree_util
from devrt.programs.trees import LEAF, NONE, MismatchError, Node, Tree, named_fields

Point = collections.namedtuple("Point", ["x", "y"])
TREE = Node(
    tuple,
    (
        Node(dict, (LEAF, Node(list, (LEAF, LEAF))), ("a", "b")),
        NONE,
        named_fields("geometry.Point", ["x", "y"], (LEAF, NONE)),
        Node(Node, (LEAF,), (), "Other"),
    ),
)


class Other:
    def __init__(self, part):
        self.part = part


devrt.tree_util.register_pytree_node(Other, lambda o: ((o.part,), None), lambda _, p: Other(*p))


def test_leaves_come_in_the_exporter_s_order():
    tree = Tree(TREE)
    assert tree.num_leaves == 5
    for other in ((5,), [5], Other(5)):
        assert tree.flatten(({"b": [2, 3], "a": 1}, None, Point(4, None), other)) == [1, 2, 3, 4, 5]
    assert list(TREE.paths()) == ["[0]['a']", "[0]['b'][0]", "[0]['b'][1]", "[2].x", "[3][0]"]


def test_dicts_in_another_order_than_sorted_keep_theirs():
    tree = Tree(Node(dict, (LEAF, LEAF), ("z", "a")))
    assert tree.flatten({"a": 1, "z": 2}) == [2, 1]
    assert tree.unflatten([2, 1]) == {"z": 2, "a": 1}


def test_values_are_put_together_again():
    made = Tree(TREE).unflatten([1, 2, 3, 4, 5])
    assert made == ({"a": 1, "b": [2, 3]}, None, (4, None), (5,))
    assert type(made[2]).__name__ == "Point"


@pytest.mark.parametrize(
    ("value", "path", "problem"),
    [
        ([], "", "must be a tuple, and is of type list"),
        ((1, None, None), "", "has 3 elements, and must have 4"),
        (({"a": 1}, None, Point(4, None), (5,)), "[0]", r"lacks the keys \['b'\]"),
        (({"a": 1, "b": (2, 3)}, None, 0, 0), "[0]['b']", "must be a list, and is of type tuple"),
        (({"a": 1, "b": [2, 3]}, 7, 0, 0), "[1]", "must be None, and is of type int"),
        (({"a": 1, "b": [2, 3]}, None, (4, None), 0), "[2]", "named tuple Point of x, y"),
        (
            ({"a": 1, "b": [2, 3]}, None, Point(4, None), 5),
            "[3]",
            "tuple of the 1 children of Other",
        ),
    ],
)
def test_what_does_not_match_is_named_by_its_path(value, path, problem):
    with pytest.raises(MismatchError) as caught:
        Tree(TREE).flatten(value)
    assert caught.value.path == path
    assert problem.replace("\\", "") in caught.value.problem


class CountedKey(str):
    """A key that counts how often keys are compared."""

    comparisons = 0

    def __eq__(self, other):
        CountedKey.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_dict_is_taken_apart_without_comparing_each_key_with_each():
    keys = tuple(CountedKey(number) for number in range(200))
    tree = Tree(Node(dict, (LEAF,) * len(keys), keys))
    CountedKey.comparisons = 0
    assert tree.flatten({CountedKey(key): key for key in keys}) == list(keys)
    assert CountedKey.comparisons < 10 * len(keys)
