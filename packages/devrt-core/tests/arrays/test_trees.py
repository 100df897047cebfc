"""Trees: registered classes, long transfers with progress, reading into arrays, sharded stacks."""

import collections
import dataclasses

import numpy as np
import pytest

import devrt
from devrt import tree_util
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P

pytest.importorskip("devrt_cpu")

Point = collections.namedtuple("Point", "x y")


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    bias: object
    name: str = dataclasses.field(default="", metadata={"static": True})


@tree_util.register_pytree_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten(self):
        return [self.a, self.b], None

    @classmethod
    def tree_unflatten(cls, metadata, children):
        return cls(*children)


@dataclasses.dataclass
class Plain:
    value: object


def tree():
    return {
        "layer": Layer(np.ones((2, 2)), [1.0, None], "first"),
        "pair": Pair(np.arange(3), (np.float32(2), ())),
        "point": Point(1, {"deep": np.zeros(1)}),
        "ordered": collections.OrderedDict(z=1, a=2),
    }


def test_every_kind_of_tree_comes_back_in_its_form(cpu):
    placed = devrt.device_put(tree(), cpu[1])
    assert isinstance(placed["layer"], Layer)
    assert placed["layer"].name == "first"
    assert placed["layer"].bias[1] is None
    assert isinstance(placed["pair"], Pair)
    assert isinstance(placed["point"], Point)
    assert list(placed["ordered"]) == ["z", "a"]
    leaves = tree_util.tree_leaves(placed)
    assert all(type(leaf) is devrt.Array and leaf.device is cpu[1] for leaf in leaves)
    assert devrt.block_until_ready(placed) is placed
    back = devrt.device_get(placed)
    for mine, theirs in zip(
        tree_util.tree_leaves(back), tree_util.tree_leaves(tree()), strict=True
    ):
        np.testing.assert_array_equal(mine, theirs)


def test_dataclasses_are_registered_with_fields_in_any_split():
    with pytest.raises(InvalidTypeError, match="dataclass"):
        tree_util.register_dataclass(int)
    with pytest.raises(InvalidArgumentError, match="must include all dataclass fields"):
        tree_util.register_dataclass(Plain, ["other"], [])
    with pytest.raises(InvalidArgumentError):
        tree_util.register_dataclass(Layer)
    tree_util.register_dataclass(Plain, data_fields=["value"], meta_fields=[])
    assert tree_util.tree_map(lambda x: x + 1, Plain(1)).value == 2
    leaves, structure = tree_util.tree_flatten(Plain([1, 2]))
    assert tree_util.tree_unflatten(structure, leaves[::-1]).value == [2, 1]
    assert tree_util.tree_structure(Plain([0, 0])) == structure


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda bad: {"w": [1.0, bad]}, "['w'][1]"),
        (lambda bad: Layer(1.0, [0.0, bad]), ".bias"),
        (lambda bad: Point(1, {"deep": bad}), ".y['deep']"),
        (lambda bad: (1, (2, bad)), "[1][1]"),
    ],
)
@pytest.mark.parametrize("bad", ["text", object(), np.array(["a"])], ids=["str", "object", "array"])
def test_a_leaf_that_is_no_number_is_named_by_its_path(cpu, make, path, bad):
    rows = NamedSharding(devrt.make_mesh((8,), ("x",), devices=cpu), P())
    for target in (cpu[0], None, rows, "pinned_host"):
        with pytest.raises(InvalidTypeError) as caught:
            devrt.device_put(make(bad), target)
        assert path in caught.value.path
        assert path in str(caught.value)


def test_trees_of_arrays_and_values_are_put_alike(cpu):
    on_device = devrt.device_put(np.ones(2), cpu[3])
    placed = devrt.device_put([on_device, np.zeros(2), 1.5], cpu[1])
    assert [p.device for p in placed] == [cpu[1]] * 3
    left = devrt.device_put([on_device, np.zeros(2)])
    assert left[0] is on_device
    assert not left[1].committed
    gone = devrt.device_put([on_device, on_device.copy()], cpu[0], donate=True)
    assert on_device.is_deleted()
    assert np.asarray(gone[0]).sum() == 2
    with pytest.raises(DeletedError):
        devrt.device_put([on_device], cpu[0])


def test_whether_to_donate_and_to_share_is_a_leafs_own(cpu):
    first, second = (devrt.device_put(np.ones(2), cpu[3]) for _ in range(2))
    devrt.device_put((first, [second]), cpu[0], donate=(True, False))
    assert (first.is_deleted(), second.is_deleted()) == (True, False)
    copied, shared = devrt.device_put([second, second], cpu[3], may_alias=[False, None])
    assert copied.unsafe_buffer_pointer() != second.unsafe_buffer_pointer()
    assert shared.unsafe_buffer_pointer() == second.unsafe_buffer_pointer()
    with pytest.raises(InvalidArgumentError, match=r"leaf x\[1\]"):
        devrt.device_put([second, second], cpu[0], src=[cpu[3], cpu[1]])
    with pytest.raises(InvalidArgumentError, match=r"would share\. Give one"):
        devrt.device_put(second, cpu[0], donate=True, may_alias=True)
    with pytest.raises(InvalidArgumentError, match="options does not fit"):
        devrt.device_put([second], cpu[0], donate=(True, False))


def test_progress_is_reported_leaf_by_leaf(cpu):
    states = []
    values = [np.zeros(4, np.float32), [np.zeros(8, np.float32)], np.zeros(1 << 18)]
    total = 16 + 32 + (8 << 18)
    placed = devrt.device_put(values, cpu[0], progress=states.append)
    assert [s.leaves_done for s in states] == [1, 2, 3]
    assert [s.bytes_done for s in states] == [16, 48, total]
    assert {(s.leaves, s.bytes) for s in states} == {(3, total)}
    states.clear()
    back = devrt.device_get(placed, progress=states.append)
    assert states[-1] == devrt.Progress(3, 3, total, total)
    np.testing.assert_array_equal(back[2], values[2])
    states.clear()
    devrt.device_put(np.zeros(2), cpu[0], progress=states.append)
    assert [s.leaves_done for s in states] == [1]


def test_a_bar_goes_to_the_standard_error(cpu, capsys):
    placed = devrt.device_put({"a": np.zeros(8), "b": [np.ones(2)]}, cpu[0], progress=True)
    devrt.device_get(placed, progress=True)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "device_put 2/2" in printed.err
    assert "device_get 2/2" in printed.err


def test_progress_is_nothing_else(cpu):
    with pytest.raises(InvalidTypeError, match="progress"):
        devrt.device_put([1.0], cpu[0], progress="yes")


def test_an_error_on_the_way_ends_the_progress(cpu):
    states = []
    with pytest.raises(InvalidTypeError, match=r"\[1\]"):
        devrt.device_put([1.0, "text", 2.0], cpu[0], progress=states.append)
    assert len(states) <= 1


def test_reading_into_arrays_that_are_there(cpu):
    rows = NamedSharding(devrt.make_mesh((4, 2), ("x", "y"), devices=cpu), P("x", "y"))
    x = np.arange(64.0).reshape(8, 8)
    a, b = devrt.device_put(x, rows), devrt.device_put(x, cpu[0])
    for array in (a, b, x):
        for out in (np.zeros((8, 8)), np.zeros((8, 16))[:, ::2], np.zeros((8, 8), order="F")):
            assert devrt.device_get(array, out=out) is out
            np.testing.assert_array_equal(out, x)
    outs = {"a": np.zeros((8, 8)), "b": [np.zeros((8, 8))]}
    result = devrt.device_get({"a": a, "b": [b]}, out=outs)
    assert result["a"] is outs["a"]
    np.testing.assert_array_equal(outs["b"][0], x)


def test_what_cannot_be_read_into_is_refused(cpu):
    a = devrt.device_put(np.zeros(4), cpu[0])
    frozen = np.zeros(4)
    frozen.flags.writeable = False
    for out, words in (
        (np.zeros(5), r"\(4,\)"),
        (np.zeros(4, np.float32), "float64"),
        ([0.0] * 4, "list"),
        (frozen, "read-only"),
    ):
        with pytest.raises(InvalidArgumentError, match=words):
            devrt.device_get(a, out=out)
    with pytest.raises(InvalidArgumentError, match="structure"):
        devrt.device_get({"a": a}, out={"b": np.zeros(4)})
    a.delete()
    with pytest.raises(DeletedError):
        devrt.device_get(a, out=np.zeros(4))


def test_stacks_of_trees(cpu):
    values = [{"w": np.full(3, n), "b": float(n)} for n in range(4)]
    stacked = devrt.device_put_sharded(values, cpu[:4])
    assert stacked["w"].shape == (4, 3)
    np.testing.assert_array_equal(np.asarray(stacked["b"]), np.arange(4, dtype=np.float32))
    assert [s.data.device for s in stacked["w"].addressable_shards] == cpu[:4]
    copies = devrt.device_put_replicated({"w": np.arange(3), "b": 2.0}, cpu[:4])
    np.testing.assert_array_equal(np.asarray(copies["w"]), np.tile(np.arange(3), (4, 1)))
    assert copies["b"].dtype == np.float32
    for wrong in ([{"w": 1}, {"v": 1}], [np.ones(2), np.ones(3)], [1.0, np.int8(1)]):
        with pytest.raises(InvalidArgumentError):
            devrt.device_put_sharded(wrong, cpu[:2])
    for empty in (
        lambda: devrt.device_put_sharded([], []),
        lambda: devrt.device_put_replicated(1, []),
    ):
        with pytest.raises(InvalidArgumentError):
            empty()


def test_none_in_a_tree_of_targets_is_the_default(cpu):
    values = {"a": 1, "b": {"c": 2, "d": None}, "e": [3, 4]}
    placed = devrt.device_put(values, {"a": cpu[3], "b": None, "e": [None, cpu[2]]})
    assert placed["b"]["d"] is None
    assert placed["a"].devices() == {cpu[3]}
    assert placed["e"][1].devices() == {cpu[2]}
    for default in (placed["b"]["c"], placed["e"][0]):
        assert not default.committed
        assert default.devices() == devrt.device_put(1).devices()


def test_an_out_of_another_structure_is_reported_by_shapes_not_values(cpu):
    x = devrt.device_put({"a": np.ones((2, 3), np.float32)}, cpu[0])
    with pytest.raises(InvalidArgumentError, match="structure of the values") as caught:
        devrt.device_get(x, out=np.full(3, 7.25))
    assert "out is float64[3]" in str(caught.value)
    assert "{'a': float32[2, 3]}" in str(caught.value)
    assert "7.25" not in str(caught.value)


def test_the_modules_show_their_own_names_only():
    assert dir(tree_util) == sorted(tree_util.__all__)
    assert set(devrt.numpy.__all__) | {"float32", "bfloat16", "shape"} <= set(dir(devrt.numpy))
    assert not {"TYPE_CHECKING", "Any", "annotations"} & set(dir(devrt.numpy))
    assert all(hasattr(devrt.numpy, name) for name in dir(devrt.numpy))
