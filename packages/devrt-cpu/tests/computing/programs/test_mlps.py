"""Multi-layer perceptrons: answers, over a mesh too, and steps of training, on each device too."""

import numpy as np
import pytest

import devrt
from devrt import NamedSharding, P, lax, tree_util
from devrt import numpy as jnp

pytestmark = pytest.mark.engine


def relu(x):
    return jnp.maximum(x, 0)


def log_softmax(x):
    shifted = x - lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True))


@devrt.jit
def classify(biases, weights, x):
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        x = relu(x @ w + b)
    return log_softmax(x @ weights[-1] + biases[-1])


def test_a_classifier(agrees):
    agrees("mlp", lambda *args: [classify(args[:3], args[3:6], args[6])])


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_a_batch_of_any_size(recorded, rows):
    arguments, (wanted,) = recorded("mlp")
    got = classify(arguments[:3], arguments[3:6], arguments[6][:rows])
    np.testing.assert_allclose(got, wanted[:rows], rtol=1e-4)


def test_a_perceptron_over_a_mesh(agrees):
    mesh = devrt.make_mesh((2, 2), ("dp", "tp"))

    def over(*spec):
        return NamedSharding(mesh, P(*spec))

    @devrt.jit(in_shardings=(over("dp"), over(None, "tp"), over("tp")), out_shardings=over("dp"))
    def answer(x, first, second):
        hidden = devrt.with_sharding_constraint(relu(x @ first), over("dp", "tp"))
        return hidden @ second

    def run(*args):
        result = answer(*args)
        assert result.sharding.is_equivalent_to(over("dp", None), 2)
        return [result]

    agrees("gspmd_mlp", run)


@devrt.jit
def adam_step(params, mean, square, count, x, labels):
    """One step of Adam on the cross entropy; returns the new state and the loss."""

    def loss_of(params):
        hidden = x
        for w, b in params[:-1]:
            hidden = relu(hidden @ w + b)
        w, b = params[-1]
        logs = log_softmax(hidden @ w + b)
        return -jnp.mean(jnp.take_along_axis(logs, labels[:, None], axis=1))

    loss, grads = devrt.value_and_grad(loss_of)(params)
    count = count + 1
    mean = tree_util.tree_map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = tree_util.tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, square, grads)

    def moved(p, m, v):
        m = m / (1 - jnp.power(0.9, count.astype("float32")))
        v = v / (1 - jnp.power(0.999, count.astype("float32")))
        return p - 1e-3 * m / (jnp.sqrt(v) + 1e-8)

    return tree_util.tree_map(moved, params, mean, square), mean, square, count, loss


def test_a_step_of_training(agrees):
    def step(*args):
        layers = [
            [tuple(args[at : at + 2]) for at in range(first, first + 6, 2)] for first in (0, 6, 12)
        ]
        return tree_util.tree_leaves(adam_step(*layers, *args[18:]))

    def draw(rng, avals):
        drawn = [rng.normal(scale=0.1, size=shape).astype("float32") for shape, _ in avals]
        drawn[12:18] = [np.square(x) for x in drawn[12:18]]
        drawn[18] = np.int32(3)
        drawn[20] = rng.integers(10, size=drawn[20].shape, dtype=np.int32)
        return drawn

    agrees("mlp_train_step", step, draw=draw, updated=6)


def test_a_step_of_training_on_each_device(agrees):
    mesh = devrt.make_mesh((4,), ("x",))

    def loss_of(params, x, y):
        error = jnp.tanh(x @ params["a"]) @ params["b"] - y
        return lax.pmean(jnp.mean(error**2), "x")

    @devrt.jit
    @devrt.shard_map(mesh=mesh, in_specs=(P(), P("x"), P("x")), out_specs=(P(), P()))
    def step(params, x, y):
        loss, grads = devrt.value_and_grad(loss_of)(params, x, y)
        return tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads), loss

    def run(a, b, x, y):
        return tree_util.tree_leaves(step({"a": a, "b": b}, x, y))

    agrees("shard_map_dp", run, updated=2)
