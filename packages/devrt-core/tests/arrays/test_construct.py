"""Arrays made of parts, trees of targets, and JAX's older placement functions."""

import numpy as np
import pytest

import devrt
import devrt.numpy as jnp
from devrt.errors import DeletedError, InvalidArgumentError, InvalidTypeError
from devrt.sharding import NamedSharding
from devrt.sharding import PartitionSpec as P

pytest.importorskip("devrt_cpu")

X = np.arange(48, dtype=np.float32).reshape(16, 3)


@pytest.fixture
def rows(cpu):
    return NamedSharding(devrt.make_mesh((4, 2), ("x", "y"), devices=cpu), P("x"))


def test_from_single_device_arrays_in_either_form_and_any_order(rows):
    a = devrt.device_put(X, rows)
    parts = [shard.data for shard in a.addressable_shards]
    made = [
        devrt.make_array_from_single_device_arrays(parts[::-1], rows),
        devrt.make_array_from_single_device_arrays(X.shape, rows, parts),
        devrt.make_array_from_single_device_arrays(arrays=parts, sharding=rows),
        devrt.make_array_from_single_device_arrays(sharding=rows, arrays=parts, shape=X.shape),
    ]
    for array in made:
        assert array.shape == X.shape
        np.testing.assert_array_equal(np.asarray(array), X)
    a.delete()
    np.testing.assert_array_equal(np.asarray(made[0]), X)


def test_parts_must_fit(rows, cpu):
    parts = [s.data for s in devrt.device_put(X, rows).addressable_shards]
    make = devrt.make_array_from_single_device_arrays
    with pytest.raises(InvalidArgumentError, match="one array on each"):
        make(parts[:-1], rows)
    with pytest.raises(InvalidArgumentError, match="one array on each"):
        make([*parts[:-1], parts[0]], rows)
    other = devrt.device_put(np.ones((4, 4), np.float32), parts[-1].device)
    with pytest.raises(InvalidArgumentError, match=r"\(4, 3\)"):
        make([*parts[:-1], other], rows)
    for wrong in ((), (parts,), (parts, rows, 1, 2)):
        with pytest.raises(InvalidTypeError):
            make(*wrong)
    with pytest.raises(InvalidTypeError, match="list of arrays"):
        make([X], rows)


def test_the_callback_is_queried_once_for_equal_parts(rows):
    requests = []

    def part(index):
        requests.append(index)
        return X[index]

    a = devrt.make_array_from_callback(X.shape, rows, part)
    np.testing.assert_array_equal(np.asarray(a), X)
    assert len(requests) == 4
    assert a.sharding is rows


def test_a_callbacks_bad_part_is_named(rows):
    with pytest.raises(InvalidArgumentError, match="callback's part"):
        devrt.make_array_from_callback(X.shape, rows, lambda index: X)
    with pytest.raises(InvalidArgumentError, match="float64"):
        devrt.make_array_from_callback(X.shape, rows, lambda index: X[index], dtype=np.float64)


def test_process_local_data_of_one_process_is_all_of_it(rows):
    a = devrt.make_array_from_process_local_data(rows, X)
    np.testing.assert_array_equal(np.asarray(a), X)
    with pytest.raises(InvalidArgumentError, match="global shape"):
        devrt.make_array_from_process_local_data(rows, X, (32, 3))


def test_sharded_and_replicated_have_a_leading_axis(cpu):
    a = devrt.device_put_sharded([X + i for i in range(3)], cpu[:3])
    assert a.shape == (3, 16, 3)
    assert [s.device for s in a.addressable_shards] == cpu[:3]
    np.testing.assert_array_equal(np.asarray(a), np.stack([X + i for i in range(3)]))
    r = devrt.device_put_replicated(X, cpu)
    assert r.shape == (8, 16, 3)
    assert len({s.data.unsafe_buffer_pointer() for s in r.addressable_shards}) == 1
    with pytest.raises(InvalidArgumentError, match="2 for 3"):
        devrt.device_put_sharded([X, X], cpu[:3])
    with pytest.raises(InvalidArgumentError, match="value 1"):
        devrt.device_put_sharded([X, X[:1]], cpu[:2])


def test_a_tree_of_targets_may_end_above_the_leaves(rows, cpu):
    tree = {"a": X, "b": [1.0, np.ones(2)]}
    placed = devrt.device_put(tree, {"a": rows, "b": cpu[3]})
    assert placed["a"].sharding is rows
    assert [leaf.device for leaf in placed["b"]] == [cpu[3]] * 2
    with pytest.raises(InvalidArgumentError, match="tree of targets"):
        devrt.device_put(tree, [cpu[0]])


def test_copy_to_host_async_gives_a_future(rows):
    a = devrt.device_put(X, rows)
    assert a.copy_to_host_async() is None
    future = devrt.copy_to_host_async({"a": a})
    np.testing.assert_array_equal(future.result(60)["a"], X)


def test_a_deleted_array_cannot_be_placed_and_donation_always_deletes(cpu):
    a = devrt.device_put(X, cpu[0])
    b = devrt.device_put(a, donate=True)
    assert a.is_deleted()
    np.testing.assert_array_equal(np.asarray(b), X)
    for target in (None, cpu[1], "pinned_host"):
        with pytest.raises(DeletedError, match="deleted or donated"):
            devrt.device_put(a, target)


def test_targets_that_are_nearly_right_say_what_is(cpu):
    with pytest.raises(InvalidArgumentError, match=r"devrt\.devices\('cpu'\)\[0\]"):
        devrt.device_put(1.0, "cpu")
    with pytest.raises(InvalidTypeError, match="takes a device"), devrt.default_device([cpu[0]]):
        pass


def test_numpy_names(cpu):
    assert jnp.array([1, 2]).dtype == np.int32
    assert jnp.array([1.5], dtype="bfloat16").dtype == jnp.bfloat16
    assert jnp.zeros((2, 3)).dtype == jnp.float32
    assert jnp.full(2, 7).tolist() == [7, 7]
    assert jnp.arange(3).tolist() == [0, 1, 2]
    assert jnp.linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
    assert jnp.eye(2, dtype=np.int8).tolist() == [[1, 0], [0, 1]]
    assert jnp.ones_like(jnp.zeros(2, np.int16)).dtype == np.int16
    assert jnp.array(2**40).dtype == np.int64
    assert (jnp.pi, jnp.newaxis, jnp.ndarray) == (np.pi, None, devrt.Array)
    assert jnp.ndim(jnp.zeros((1, 2))) == 2
    array = jnp.array([1.0])
    assert jnp.asarray(array) is array
    with pytest.raises(AttributeError, match=r"numpy\.busday_count"):
        jnp.busday_count  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        jnp.nonsense  # noqa: B018


def test_process_local_data_may_be_a_tree(cpu):
    mesh = devrt.make_mesh((8,), ("x",), devices=cpu)
    rows, whole = NamedSharding(mesh, P("x")), NamedSharding(mesh, P())
    batch = {"x": np.arange(16.0).reshape(8, 2), "y": (np.arange(8), [np.float32(1)])}
    shardings = {"x": rows, "y": (rows, whole)}
    shapes = {"x": (8, None), "y": ((8,), None)}
    for made in (
        devrt.make_array_from_process_local_data(shardings, batch),
        devrt.make_array_from_process_local_data(shardings, batch, shapes),
    ):
        assert made["x"].sharding == rows
        assert made["y"][1][0].sharding == whole
        devrt.tree.map(np.testing.assert_array_equal, made, batch)
    with pytest.raises(InvalidArgumentError, match="does not fit the tree"):
        devrt.make_array_from_process_local_data({"x": rows}, batch)
    with pytest.raises(InvalidArgumentError, match=r"leaf x\['y'\]\[0\]"):
        devrt.make_array_from_process_local_data(rows, batch, {"x": None, "y": (8, 2)})


@pytest.mark.parametrize("shape", [(), (0,), (2,)])
def test_like_an_array_on_every_device(cpu, shape):
    whole = NamedSharding(devrt.make_mesh((len(cpu),), ("x",), devices=cpu), P())
    found = devrt.numpy.ones_like(devrt.device_put(np.zeros(shape, np.float32), whole))
    assert found.sharding == whole
    for shard in found.addressable_shards:
        assert list(shard.data.devices()) == [shard.device]
        np.testing.assert_array_equal(shard.data, np.ones(shape))
