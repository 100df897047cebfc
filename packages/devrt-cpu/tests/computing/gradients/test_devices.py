"""Gradients through manual computations and collectives, on meshes of CPU devices."""

import numpy as np
import pytest

import devrt
from devrt import P, lax
from devrt.errors import UnimplementedError
from devrt.tracing import binary, reduce, unary

pytestmark = pytest.mark.engine
RNG = np.random.default_rng(3)
X = RNG.normal(size=(8, 4)).astype(np.float32)
W = RNG.normal(size=(8, 4)).astype(np.float32)
V = RNG.normal(size=(4,)).astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def eight_devices():
    devrt.config.update("num_cpu_devices", 8)


def mesh(*sizes):
    names = ("x", "y")[: len(sizes)]
    count = int(np.prod(sizes))
    return devrt.make_mesh(sizes, names, devices=devrt.devices("cpu")[:count])


def mul(*operands):
    total, *rest = operands
    for each in rest:
        total = binary("multiply", total, each)
    return total


def total(x):
    return reduce("add", x, 0, range(len(x.aval.shape)))


def mapped(function, in_specs, out_specs, sizes=(4,), **options):
    return devrt.shard_map(
        function, mesh=mesh(*sizes), in_specs=in_specs, out_specs=out_specs, **options
    )


def gradient(function, *args):
    """Return gradients by all arguments of a weighted sum of a function's result."""

    def loss(*args):
        result = function(*args)
        weights = np.arange(1, result.aval.size + 1, dtype=np.float32).reshape(result.aval.shape)
        return total(mul(result, weights))

    found = devrt.grad(loss, argnums=tuple(range(len(args))))(*args)
    return [np.asarray(each) for each in found]


def test_each_device_goes_back_through_its_own_part():
    found = gradient(mapped(lambda x: mul(x, x), P("x"), P("x")), X)[0]
    np.testing.assert_allclose(found, 2 * X * np.arange(1, 33).reshape(8, 4), rtol=1e-6)


def test_a_whole_argument_gets_the_sum_over_the_devices():
    of_x, of_v = gradient(mapped(lambda x, v: mul(x, v), (P("x"), P()), P("x")), X, V)
    weights = np.arange(1, 33).reshape(8, 4)
    np.testing.assert_allclose(of_x, weights * V, rtol=1e-5)
    np.testing.assert_allclose(of_v, (weights * X).sum(0), rtol=1e-5)


def test_a_sum_over_devices_goes_back_to_each():
    function = mapped(lambda x: lax.psum(mul(x, x), "x"), P("x"), P())
    weights = np.arange(1, 9).reshape(2, 4)
    found = gradient(function, X)[0]
    np.testing.assert_allclose(found, 2 * X * np.tile(weights, (4, 1)), rtol=1e-5)


def test_a_sum_of_what_is_the_same_on_all_counts_as_often():
    found = gradient(mapped(lambda v: lax.psum(v, "x"), P(), P()), V)[0]
    np.testing.assert_allclose(found, 4 * np.arange(1, 5))


def test_a_mean_and_what_is_made_of_it():
    def centred(x):
        mean = lax.pmean(x, "x")
        return binary("subtract", x, mean)

    found = gradient(mapped(centred, P("x"), P("x")), X)[0]
    weights = np.arange(1, 33, dtype=np.float32).reshape(4, 2, 4)
    np.testing.assert_allclose(found, (weights - weights.mean(0)).reshape(8, 4), atol=1e-4)


def test_gathered_scattered_exchanged_and_sent():
    def function(x, w):
        every = lax.all_gather(x, "x", tiled=True)
        part = lax.psum_scatter(mul(every, every), "x", tiled=True)
        split = lax.all_to_all(mul(part, w), "x", split_axis=1, concat_axis=0, tiled=True)
        back = lax.all_to_all(unary("sine", split), "x", split_axis=0, concat_axis=1, tiled=True)
        return lax.ppermute(back, "x", [(0, 1), (1, 2), (2, 3), (3, 0)])

    found = gradient(mapped(function, (P("x"), P("x")), P("x")), X, W)
    weights = np.arange(1, 33).reshape(4, 2, 4)
    weights = np.roll(weights, -1, 0).reshape(8, 4)
    slope = weights * np.cos(4 * X * X * W)
    np.testing.assert_allclose(found[0], slope * 8 * X * W, rtol=2e-3, atol=1e-3)
    np.testing.assert_allclose(found[1], slope * 4 * X * X, rtol=2e-3, atol=1e-3)


def test_two_axes_of_which_one_is_summed():
    def function(x, w):
        part = lax.psum(mul(x, w), "y")
        return mul(part, x)

    both = mapped(function, (P("x", "y"), P("x", "y")), P("x", "y"), (2, 4))
    of_x, of_w = gradient(both, X, W)
    weights = np.arange(1, 33).reshape(8, 4)
    row = (X * W).sum(1, keepdims=True)
    back = (weights * X).sum(1, keepdims=True)
    np.testing.assert_allclose(of_x, weights * row + back * W, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(of_w, back * X, rtol=1e-4, atol=1e-4)


def test_inside_the_computation_gradients_of_whole_values_are_summed():
    def step(x, v):
        return devrt.grad(lambda v: total(mul(x, v, v)))(v)

    found = mapped(step, (P("x"), P()), P())(X, V)
    np.testing.assert_allclose(found, 2 * V * X.sum(0), rtol=1e-5)


def test_inside_the_computation_a_summed_loss_has_the_same_gradient():
    def step(x, v):
        return devrt.grad(lambda v: lax.psum(total(mul(x, v, v)), "x"))(v)

    found = mapped(step, (P("x"), P()), P())(X, V)
    np.testing.assert_allclose(found, 2 * V * X.sum(0), rtol=1e-5)


def test_an_unchecked_result_counts_once():
    def function(x):
        return lax.all_gather(mul(x, x), "x", tiled=True)

    found = gradient(mapped(function, P("x"), P(), check_vma=False), X)[0]
    np.testing.assert_allclose(found, 2 * X * np.arange(1, 33).reshape(8, 4), rtol=1e-5)


def test_loops_inside_the_computation():
    def function(x, v):
        def step(carry, row):
            carry = binary("add", mul(carry, v), lax.psum(row, "x"))
            return carry, mul(carry, row)

        return lax.scan(step, v, x)[1]

    of_x, of_v = gradient(
        mapped(function, (P(None, "x"), P()), P(None, "x"), (2,)), X[:, :2], V[:1]
    )

    def plain(x, v):
        carry, rows = np.repeat(v, 2), []
        for row in x:
            carry = carry * v + row.sum()
            rows.append(carry * row)
        return (np.array(rows) * np.arange(1, 17).reshape(8, 2)).sum()

    x, v = X[:, :2].astype(float), V[:1].astype(float)
    of_v_by_differences = (plain(x, v + 1e-6) - plain(x, v - 1e-6)) / 2e-6
    np.testing.assert_allclose(of_v[0], of_v_by_differences, rtol=1e-3)
    moved = np.zeros_like(x)
    moved[3, 1] = 1e-6
    np.testing.assert_allclose(
        of_x[3, 1], (plain(x + moved, v) - plain(x - moved, v)) / 2e-6, rtol=1e-3
    )


def test_sharded_arguments_have_gradients_that_lie_as_they_do():
    sharding = devrt.NamedSharding(mesh(4), P("x"))
    x = devrt.device_put(X, sharding)
    found = devrt.grad(lambda x: total(mul(x, x)))(x)
    np.testing.assert_allclose(found, 2 * X)
    assert found.sharding.is_equivalent_to(sharding, 2)


@pytest.mark.parametrize("check_vma", [True, False])
def test_what_is_the_same_on_all_counts_once(check_vma):
    def ran(function):
        found = mapped(function, P("x"), P(), check_vma=check_vma)
        return gradient(found, X)[0]

    weights = np.arange(1, 33, dtype=np.float32).reshape(8, 4)
    gathered = ran(lambda part: lax.all_gather(part, "x", tiled=True, to="invarying"))
    np.testing.assert_allclose(gathered, weights)
    sent = ran(lambda part: lax.pbroadcast(part, "x", 2))
    np.testing.assert_allclose(sent[4:6], weights[:2])
    assert not sent[:4].any()
    assert not sent[6:].any()
    again = ran(devrt.checkpoint(lambda part: lax.psum(mul(part, part), "x")))
    np.testing.assert_allclose(again, 2 * X * np.tile(weights[:2], (4, 1)), rtol=1e-6)


def test_groups_of_different_sizes_go_back_to_their_devices():
    groups = [[0], [1, 2, 3]]
    found = mapped(lambda part: lax.psum(part, "x", axis_index_groups=groups), P("x"), P("x"))
    (found,) = gradient(found, X)
    weights = np.arange(1, 33, dtype=np.float32).reshape(4, 2, 4)
    np.testing.assert_allclose(found[:2], weights[0])
    np.testing.assert_allclose(found[2:], np.tile(weights[1:].sum(0), (3, 1)))


def test_the_largest_over_devices_has_no_gradient():
    function = mapped(lambda x: lax.pmax(x, "x"), P("x"), P())
    with pytest.raises(UnimplementedError, match=r"no gradient of stablehlo.all_reduce.*only sums"):
        gradient(function, X)
