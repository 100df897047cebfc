"""devrt.tree_util and devrt.tree: what is a node, structures, keys, and what is refused."""

from __future__ import annotations

import collections
import dataclasses
import pickle
import subprocess
import sys

import numpy as np
import pytest

import devrt
from devrt import tree, tree_util
from devrt.errors import InvalidArgumentError, InvalidTypeError
from devrt.tree_util import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

Point = collections.namedtuple("Point", "x y")


@tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __eq__(self, other):
        return isinstance(other, Pair) and (self.a, self.b) == (other.a, other.b)

    def tree_flatten(self):
        return (self.a, self.b), "data"

    @classmethod
    def tree_unflatten(cls, data, children):
        assert data == "data"
        return cls(*children)


@tree_util.register_pytree_with_keys_class
class Keyed(Pair):
    def tree_flatten_with_keys(self):
        return ((GetAttrKey("a"), self.a), (GetAttrKey("b"), self.b)), "data"


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    name: str = tree.static(default="layer")


@tree_util.register_static
class Mode(str):
    pass


class Unregistered:
    pass


TREES = {
    "None": None,
    "()": (),
    "(1,)": (1,),
    "list": [1, (2, [3], None)],
    "dict": {"b": 1, "a": {"z": 2, "y": 3}},
    "ordered": collections.OrderedDict(z=1, a=2),
    "default": collections.defaultdict(list, b=1, a=2),
    "named": Point(1, Point(2, None)),
    "registered": Pair([1, 2], {"k": 3}),
    "keyed": Keyed(1, Keyed(2, 3)),
    "dataclass": Layer((1, 2), "first"),
    "static": (Mode("fast"), 1),
    "partial": (tree_util.Partial(max, 1, default=2),),
}
TEXTS = {
    "None": "None",
    "()": "()",
    "(1,)": "(*,)",
    "list": "[*, (*, [*], None)]",
    "dict": "{'a': {'y': *, 'z': *}, 'b': *}",
    "ordered": "CustomNode(OrderedDict[('z', 'a')], [*, *])",
    "default": "CustomNode(defaultdict[(<class 'list'>, ('a', 'b'))], [*, *])",
    "named": "CustomNode(namedtuple[Point], [*, CustomNode(namedtuple[Point], [*, None])])",
    "registered": "CustomNode(Pair[data], [[*, *], {'k': *}])",
    "keyed": "CustomNode(Keyed[data], [*, CustomNode(Keyed[data], [*, *])])",
    "dataclass": "CustomNode(Layer[('first',)], [(*, *)])",
    "static": "(CustomNode(Mode[fast], []), *)",
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_comes_back_from_its_leaves(name):
    given = TREES[name]
    leaves, structure = tree_util.tree_flatten(given)
    assert structure.num_leaves == len(leaves)
    back = structure.unflatten(leaves)
    if name == "partial":
        assert (back[0].func, back[0].args, back[0].keywords) == (max, (1,), {"default": 2})
    else:
        assert back == given
    assert structure.flatten_up_to(given) == leaves
    assert tree_util.tree_leaves(given) == leaves
    read = pickle.loads(pickle.dumps(structure))
    assert read == structure
    assert hash(read) == hash(structure)
    assert [leaf for _, leaf in tree_util.tree_leaves_with_path(given)] == leaves
    assert repr(structure) == f"PyTreeDef({TEXTS.get(name, repr(structure)[10:-1])})"
    data = structure.node_data()
    made = tree_util.PyTreeDef.from_node_data_and_children(
        tree_util.default_registry, data, structure.children()
    )
    assert made == structure


def test_dicts_come_back_sorted_and_ordered_ones_as_they_were():
    leaves, structure = tree_util.tree_flatten({"b": 2, "a": 1})
    assert list(structure.unflatten(leaves)) == ["a", "b"]
    leaves, structure = tree_util.tree_flatten(TREES["ordered"])
    assert list(structure.unflatten(leaves)) == ["z", "a"]
    with pytest.raises(InvalidArgumentError, match="Comparator raised exception"):
        tree_util.tree_flatten({"a": 1, 2: 3})


def test_what_is_no_node_is_a_leaf():
    for leaf in (Unregistered(), {1, 2}, collections.deque([1]), np.zeros(2), "text"):
        assert tree_util.tree_leaves(leaf) == [leaf] or leaf is not None
        assert tree_util.all_leaves([leaf])
        assert not tree_util.is_tree_node(type(leaf))
    assert tree_util.treedef_is_leaf(tree_util.tree_structure(1))
    assert not tree_util.all_leaves([1, None])
    assert tree_util.is_tree_node(Point)
    with pytest.raises(InvalidArgumentError, match="can't tree-flatten"):
        tree_util.flatten_one_level(1)


def test_keys_and_paths():
    given = {"p": Point(1, [2]), "r": Pair(3, 4), "k": Keyed(5, Layer(6))}
    paths = dict((value, path) for path, value in tree_util.tree_leaves_with_path(given))
    assert paths == {
        5: (DictKey("k"), GetAttrKey("a")),
        6: (DictKey("k"), GetAttrKey("b"), GetAttrKey("weight")),
        1: (DictKey("p"), GetAttrKey("x")),
        2: (DictKey("p"), GetAttrKey("y"), SequenceKey(0)),
        3: (DictKey("r"), FlattenedIndexKey(0)),
        4: (DictKey("r"), FlattenedIndexKey(1)),
    }
    assert tree_util.keystr(paths[2]) == "['p'].y[0]"
    assert tree_util.keystr(paths[4], simple=True, separator="/") == "r/1"
    assert hash(SequenceKey(1)) != hash(FlattenedIndexKey(1))
    assert repr(DictKey("a")) == "DictKey(key='a')"
    assert pickle.loads(pickle.dumps(paths)) == paths
    named = tree_util.tree_map_with_path(lambda path, x: tree_util.keystr(path), [1, (2,)])
    assert named == ["[0]", ("[1][0]",)]


def test_is_leaf_stops_and_may_take_the_path():
    given = [(1, 2), {"a": (3, 4)}]
    assert tree_util.tree_leaves(given, is_leaf=lambda x: isinstance(x, tuple)) == [(1, 2), (3, 4)]
    short = tree.leaves_with_path(given, lambda path, _: len(path) == 1, is_leaf_takes_path=True)
    assert short == [((SequenceKey(0),), (1, 2)), ((SequenceKey(1),), {"a": (3, 4)})]
    assert tree.map(len, given, is_leaf=lambda x: type(x) is tuple) == [2, {"a": 2}]


def test_map_reduce_transpose_broadcast():
    assert tree.map(lambda x, y: (x, y), {"a": 1}, {"a": [2]}) == {"a": (1, [2])}
    assert tree.reduce(lambda x, y: x - y, [10, (1, 2)]) == 7
    assert tree.reduce(lambda x, y: x + y, [[], ()], 5) == 5
    assert tree.reduce_associative(lambda x, y: x + y, list("abcde")) == "abcde"
    assert tree.reduce_associative(max, [], identity=0) == 0
    with pytest.raises(InvalidTypeError, match="identity"):
        tree.reduce_associative(max, [])
    assert tree.all([True, {"a": 1}])
    assert not tree.all([True, {"a": 0}])
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0, "b": 0})
    turned = tree.transpose(outer, inner, [{"a": 1, "b": 2}, {"a": 3, "b": 4}])
    assert turned == {"a": [1, 3], "b": [2, 4]}
    assert tree.transpose(outer, None, [(1, 2), (3, 4)]) == ([1, 3], [2, 4])
    with pytest.raises(InvalidTypeError, match="Mismatch"):
        tree.transpose(outer, inner, [1, 2])
    assert tree.broadcast((1, 2), (0, {"x": 0, "y": 0})) == (1, {"x": 2, "y": 2})
    assert tree_util.build_tree(tree.structure([0, (0, 0)]), ((1), [2, 3])) == [1, (2, 3)]


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ([1, 2], [1], r"different lengths of list at key path\n    tree"),
        ({"a": [1]}, {"a": (1,)}, r"different types at key path\n    tree\['a'\]"),
        ({"a": 1}, {"b": 1}, "different pytree metadata"),
        ({"a": 1}, {"a": 1, "b": 2}, r"symmetric difference on key sets is\n    \['b'\]"),
        (Pair(1, [2]), Pair(1, 2), r"<flat index 1>"),
        (None, 1, "different types"),
    ],
)
def test_errors_tell_where_trees_differ(first, second, words):
    with pytest.raises(InvalidArgumentError, match=words):
        tree.map(lambda *xs: xs, first, second)
    with pytest.raises(ValueError, match=r"[Ee]xpected|mismatch"):
        tree.structure(first).flatten_up_to(second)


def test_structures_are_put_together_and_counted():
    two = tree.structure((0, 0))
    assert tree_util.treedef_tuple([two, tree.structure(1)]) == tree.structure(((0, 0), 0))
    assert tree_util.treedef_children(two) == [tree.structure(0)] * 2
    composed = two.compose(tree.structure([0, None]))
    assert (composed.num_leaves, composed.num_nodes) == (2, 7)
    assert composed.unflatten([1, 2]) == ([1, None], [2, None])
    seen = []
    assert two.walk(lambda node, data: sum(node), lambda x: seen.append(x) or x, [1, 2]) == 3
    assert seen == [1, 2]
    for count in (1, 3):
        with pytest.raises(InvalidArgumentError, match=r"Too (few|many) leaves"):
            two.unflatten(range(count))


def test_structures_are_written_as_jax_writes_them():
    for name in ("None", "list", "dict"):
        structure = tree.structure(TREES[name])
        data = structure.serialize_using_proto()
        read = tree_util.PyTreeDef.deserialize_using_proto(tree_util.default_registry, data)
        assert read == structure
    for bad in (Point(1, 2), {1: 2}):
        with pytest.raises(InvalidArgumentError, match="not supported"):
            tree.structure(bad).serialize_using_proto()
    for malformed in (b"\x0a\x02\x10\x09", b"", b"\x0a\x04\x08\x07\x10\x02"):
        with pytest.raises(InvalidArgumentError, match="Malformed"):
            tree_util.PyTreeDef.deserialize_using_proto(tree_util.default_registry, malformed)


def test_what_cannot_be_registered_or_compared_is_refused():
    for again in (Pair, list, collections.OrderedDict):
        with pytest.raises(InvalidArgumentError, match="Duplicate"):
            tree_util.register_pytree_node(again, lambda x: ((), None), lambda _, x: None)
    with pytest.raises(InvalidTypeError, match="is a class"):
        tree_util.register_pytree_node("Pair", lambda x: ((), None), lambda _, x: None)

    class Bad:
        def __init__(self, flat):
            self.flat = flat

    tree_util.register_pytree_node(Bad, lambda node: node.flat, lambda data, _: data)
    for flat in ("text", (1, 2, 3), (7, 7)):
        with pytest.raises(InvalidArgumentError, match=r"\(children, aux_data\)"):
            tree.leaves(Bad(flat))
    structure = tree.structure(Bad(((), np.zeros(2))))
    hash(structure)
    with pytest.raises(InvalidArgumentError, match=r"type <class '.*Bad'>"):
        bool(structure == tree.structure(Bad(((), np.zeros(2)))))
    endless = []
    endless.append(endless)
    with pytest.raises(InvalidArgumentError, match="contains itself"):
        tree.leaves(endless)


def test_fields_of_dataclasses_are_checked():
    @dataclasses.dataclass
    class Three:
        x: int
        y: int
        z: int = 0

    with pytest.raises(InvalidTypeError, match="must both be specified"):
        tree_util.register_dataclass(Three, data_fields=["x"])
    with pytest.raises(InvalidTypeError, match="required when nodetype is not a dataclass"):
        tree_util.register_dataclass(Unregistered)
    with pytest.raises(InvalidArgumentError, match=r"Missing fields: {'y'}"):
        tree_util.register_dataclass(Three, ["x"], [], drop_fields=["z"])
    with pytest.raises(InvalidArgumentError, match=r"Unexpected fields: {'w'}"):
        tree_util.register_dataclass(Three, ["x", "y"], ["z", "w"])
    with pytest.raises(InvalidArgumentError, match="must not overlap"):
        tree_util.register_dataclass(Three, ["x", "y"], ["y", "z"])
    tree_util.register_dataclass(Three, ["x"], ["y"], drop_fields=["z"])
    assert tree.map(lambda v: v + 1, Three(1, 2, 3)) == Three(2, 2, 0)


def test_a_partial_of_a_partial_keeps_its_own_arguments():
    import functools

    inner = functools.partial(print, 1)
    outer = tree_util.Partial(inner, 2)
    assert outer.args == (2,)
    assert outer.func == inner
    assert hash(outer.func) == hash(inner)
    assert tree_util.Partial(inner, 2).func == outer.func


def test_registered_before_arrays_are_there_and_no_numpy_is_needed():
    code = """
import sys
from devrt import tree_util
class Box:
    def __init__(self, x): self.x = x
tree_util.register_pytree_node(Box, lambda b: ((b.x,), None), lambda _, x: Box(*x))
assert tree_util.tree_map(lambda x: x + 1, [Box(1)])[0].x == 2
assert not {"numpy", "devrt.arrays"} & set(sys.modules), sorted(sys.modules)
from devrt.arrays.tree import leaves
assert leaves({"a": Box(3)}) == [3]
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_modules_list_their_names():
    assert dir(tree) == sorted(tree.__all__)
    assert devrt.tree is tree
    assert tree.map is tree_util.tree_map


@pytest.fixture(scope="module")
def deep():
    """Return a structure that is nested more deeply than Python goes."""
    outer = made = tree_util.tree_structure([0])
    for _ in range(100_000):
        made = outer.compose(made)
    return made


@pytest.mark.parametrize(
    "use",
    [
        lambda t: t.unflatten([1]),
        lambda t: t.flatten_up_to(endless()),
        lambda t: t.num_nodes,
        lambda t: t.compose(t),
        lambda t: t.walk(lambda children, _: children, None, [1]),
        lambda t: t == tree_util.tree_structure([0]).compose(t),
        repr,
        hash,
        lambda t: t.__reduce__(),
        lambda t: tree_util.tree_map(lambda a, b: a, nested(), endless()),
    ],
)
def test_a_structure_that_is_too_deep_is_one_error(deep, use):
    with pytest.raises(InvalidArgumentError, match="nested more deeply than Python goes"):
        use(deep)


def endless():
    made = []
    made.append(made)
    return made


def nested():
    made = [0]
    for _ in range(100_000):
        made = [made]
    return made


def test_transposing_nothing_by_what_it_has_as_leaves_is_refused():
    with pytest.raises(InvalidTypeError, match=r"PyTreeDef\(\[\]\) has no leaves to take"):
        tree_util.tree_transpose(tree_util.tree_structure([]), None, [])
