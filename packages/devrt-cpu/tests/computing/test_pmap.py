"""Functions that run on several devices, each with its part of a dimension."""

import functools

import numpy as np
import pytest

import devrt
from devrt import NamedSharding, P, lax
from devrt.errors import InvalidArgumentError, InvalidTypeError, UnimplementedError
from devrt.tracing import reshape

pytestmark = pytest.mark.engine

X = np.arange(32, dtype=np.float32).reshape(8, 4)


def test_each_device_has_a_row():
    seen = []

    def function(row, tree, *, scale):
        seen.append((row.shape, tree["a"].shape, scale.shape))
        return row * scale, lax.psum(tree["a"], "i")

    found = devrt.pmap(function, axis_name="i")(X, {"a": X[:, 0]}, scale=np.arange(8.0))
    assert seen == [((4,), (), ())]
    np.testing.assert_array_equal(found[0], X * np.arange(8.0)[:, None])
    np.testing.assert_array_equal(found[1], np.full(8, X[:, 0].sum()))
    assert found[0].sharding.spec == P("i")
    assert len(found[0].devices()) == 8


def test_a_pmap_lends_its_axis_to_one_name():
    @devrt.pmap
    def function(row):
        return lax.psum(row, axis_name="batch") + lax.axis_index("batch")

    np.testing.assert_array_equal(function(X), X.sum(0) + np.arange(8)[:, None])
    with pytest.raises(InvalidArgumentError, match="this pmap is 'a' already"):
        devrt.pmap(lambda row: lax.psum(row, "a") + lax.psum(row, "b"))(X)
    with pytest.raises(InvalidArgumentError, match="axes here are 'i'"):
        devrt.pmap(lambda row: lax.psum(row, "batch"), axis_name="i")(X)


def test_axes_of_arguments_and_results():
    def function(a, b):
        return a + b, reshape(a, (1, 3))

    add = devrt.pmap(function, in_axes=(1, None), out_axes=(1, None))
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    total, first = add(x, np.float32(10))
    np.testing.assert_array_equal(total, x + 10)
    np.testing.assert_array_equal(first, x[None, :, 0])
    assert len(total.devices()) == 2
    trees = devrt.pmap(lambda t: t["a"] - t["b"], in_axes=({"a": 0, "b": -1},), out_axes=-1)
    np.testing.assert_array_equal(trees({"a": x.T, "b": x}), np.zeros((3, 2)))


def test_static_arguments_decide_which_program_runs():
    calls = []

    def function(power, row):
        calls.append(power)
        return row**power if power != 1 else row

    mapped = devrt.pmap(function, static_broadcasted_argnums=0)
    for _ in range(2):
        np.testing.assert_array_equal(mapped(1, X), X)
    assert calls == [1]
    last = devrt.pmap(lambda row, name: row, static_broadcasted_argnums=(-1,), in_axes=(0, None))
    np.testing.assert_array_equal(last(X, "name"), X)
    with pytest.raises(InvalidTypeError, match="static_broadcasted_argnums"):
        mapped([1], X)


def test_devices_are_chosen(cpu):
    chosen = [cpu[5], cpu[2]]
    found = devrt.pmap(lambda row: row + lax.axis_index("i"), "i", devices=chosen)(X[:2])
    np.testing.assert_array_equal(found, X[:2] + np.arange(2)[:, None])
    assert [shard.device for shard in found.addressable_shards] == chosen
    assert devrt.pmap(lambda row: row, backend="cpu")(X[:3]).devices() == set(cpu[:3])
    whole = devrt.pmap(lambda x: lax.psum(x, "i"), "i", in_axes=None, axis_size=4)(np.float32(2))
    np.testing.assert_array_equal(whole, np.full(4, 8.0))


def test_arguments_move_to_the_devices(cpu):
    replicated = devrt.device_put_replicated(X[0], cpu)
    mapped = devrt.pmap(lambda row: lax.pmean(row, "i"), "i")
    for x in (replicated, devrt.device_put(np.stack([X[0]] * 8), cpu[3])):
        np.testing.assert_array_equal(mapped(x), np.stack([X[0]] * 8))
    again = mapped(mapped(replicated))
    assert again.sharding == NamedSharding(again.sharding.mesh, P("i"))


def test_in_a_traced_function():
    mapped = devrt.pmap(lambda row: lax.psum(row, "i"), "i")
    np.testing.assert_array_equal(
        devrt.jit(lambda x: mapped(x * 2))(X), np.stack([X.sum(0) * 2] * 8)
    )


def test_gradients_are_each_devices_own():
    """As jax 0.10.2's: the mean over devices is a training step's gradient."""
    w = np.arange(4, dtype=np.float32)

    def step(row, w):
        return lax.pmean(devrt.grad(lambda w: (row * w).sum())(w), "i")

    found = devrt.pmap(step, "i", in_axes=(0, None))(X, w)
    np.testing.assert_allclose(found, np.stack([X.mean(0)] * 8), rtol=1e-6)
    whole = devrt.pmap(lambda row: devrt.grad(lambda r: lax.psum((r**2).sum(), "i"))(row), "i")
    np.testing.assert_allclose(whole(X), 16 * X)


def test_donated_arguments_are_gone(cpu):
    mesh = devrt.Mesh(list(cpu), ("i",))
    x = devrt.device_put(X, NamedSharding(mesh, P("i")))
    kept = devrt.device_put(X, NamedSharding(mesh, P("i")))
    devrt.pmap(lambda a, b: a + b, "i", donate_argnums=0)(x, kept)
    assert x.is_deleted()
    assert not kept.is_deleted()


def test_donated_arguments_that_are_moved_are_gone_too():
    x, kept = devrt.numpy.asarray(X), devrt.numpy.asarray(X)
    devrt.pmap(lambda a, b: a + b, "i", donate_argnums=0)(x, kept)
    assert x.is_deleted()
    assert not kept.is_deleted()


def test_devices_that_are_none_are_refused():
    with pytest.raises(InvalidArgumentError, match="devices of <lambda> is empty"):
        devrt.pmap(lambda x: x, devices=[])


@pytest.mark.parametrize(
    ("function", "args", "match"),
    [
        (devrt.pmap(lambda x: x), (np.zeros((9, 2)),), "9 devices, and there are 8"),
        (devrt.pmap(lambda a, b: a), (X, X[:4]), "a has 8, b has 4"),
        (devrt.pmap(lambda a: a), (np.float32(1),), r"argument a .* shape \(\)"),
        (devrt.pmap(lambda a: a, in_axes=2), (X,), "divides dimension 2"),
        (devrt.pmap(lambda a: a, in_axes=True), (X,), "divides dimension True"),
        (devrt.pmap(lambda a: a, out_axes=3), (X,), "out_axes is 3"),
        (devrt.pmap(lambda a: a, in_axes=None), (X,), "Give axis_size"),
        (devrt.pmap(lambda a: a, in_axes=(0, 0)), (X,), "pmap in_axes"),
        (devrt.pmap(lambda a: a, axis_size=4), (X,), "axis_size is 4"),
    ],
)
def test_what_does_not_fit_is_refused(function, args, match):
    with pytest.raises(InvalidArgumentError, match=match):
        function(*args)


def test_one_in_another_is_refused():
    inner = devrt.pmap(lambda x: x)
    with pytest.raises(UnimplementedError, match=r"devrt\.shard_map over a mesh of more axes"):
        devrt.pmap(lambda x: inner(x))(np.zeros((2, 2)))
    with pytest.raises(InvalidTypeError, match="takes a function"):
        devrt.pmap(3)


def test_a_method_is_bound():
    class Model:
        @functools.partial(devrt.pmap, static_broadcasted_argnums=0)
        def double(self, row):
            return row * 2

    model = Model()
    np.testing.assert_array_equal(model.double(X), X * 2)
    np.testing.assert_array_equal(Model.double(model, X), X * 2)
