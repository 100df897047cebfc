"""Losses and gradients of small networks are those of JAX 0.10.2."""

import numpy as np
import pytest

import devrt
import devrt.numpy as dnp
from devrt import lax

pytestmark = pytest.mark.engine

JAX = {
    "mlp": [
        1.1515756845474243,
        0.03226020932197571,
        -0.11526580899953842,
        0.08056526631116867,
        -0.2370501011610031,
    ],
    "attention": [
        0.2475084811449051,
        -0.0022613301407545805,
        1.1309814453125,
        -0.004628140479326248,
        0.06812039762735367,
        0.0016944280359894037,
    ],
    "conv_net": [0.20303475856781006, -1.0209324359893799, 3.726144790649414, 0.36843177676200867],
}
"""The loss, then `summary` of the gradients."""


def values(*shape, step=0.37):
    """Return numbers that everybody can make: no random ones."""
    count = int(np.prod(shape))
    return np.sin(np.arange(1, count + 1, dtype=np.float32) * np.float32(step)).reshape(shape)


def mlp(params, x, y):
    for w, b in params[:-1]:
        x = dnp.tanh(dnp.matmul(x, w) + b)
    w, b = params[-1]
    logits = dnp.matmul(x, w) + b
    top = dnp.max(logits, axis=-1, keepdims=True)
    shifted = logits - lax.stop_gradient(top)
    logs = shifted - dnp.log(dnp.sum(dnp.exp(shifted), axis=-1, keepdims=True))
    return -dnp.mean(dnp.sum(logs * y, axis=-1))


def attention(params, x):
    heads, size = 2, x.shape[-1] // 2

    def split(y):
        return dnp.transpose(dnp.reshape(y, (*y.shape[:-1], heads, size)), (0, 2, 1, 3))

    q, k, v = (split(dnp.matmul(x, params[name])) for name in "qkv")
    scores = dnp.matmul(q, dnp.swapaxes(k, -1, -2)) / np.float32(np.sqrt(size))
    is_seen = np.tril(np.ones(scores.shape[-2:], bool))
    scores = dnp.where(is_seen, scores, np.float32(-1e9))
    weights = dnp.exp(scores - dnp.max(scores, axis=-1, keepdims=True))
    weights = weights / dnp.sum(weights, axis=-1, keepdims=True)
    mixed = dnp.transpose(dnp.matmul(weights, v), (0, 2, 1, 3))
    out = x + dnp.matmul(dnp.reshape(mixed, x.shape), params["o"])
    mean = dnp.mean(out, axis=-1, keepdims=True)
    spread = dnp.mean((out - mean) ** 2, axis=-1, keepdims=True)
    out = (out - mean) * lax.rsqrt(spread + 1e-5) * params["scale"]
    return dnp.mean(out**2 * np.float32(0.5) + dnp.sin(out))


def conv_net(params, x):
    layout = ("NHWC", "HWIO", "NHWC")
    for kernel in params["kernels"]:
        x = lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout)
        x = dnp.maximum(x, 0)
        x = lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = dnp.reshape(x, (x.shape[0], -1))
    return dnp.mean(dnp.matmul(x, params["w"]) ** 2)


ONE_HOT = np.eye(3, dtype=np.float32)[[0, 2, 1, 1]]
NETWORKS = {
    "mlp": (
        mlp,
        [(values(5, 7), values(7)), (values(7, 3, step=0.7), values(3))],
        values(4, 5),
        ONE_HOT,
    ),
    "attention": (
        attention,
        {**{name: values(8, 8, step=i + 0.2) for i, name in enumerate("qkvo")}, "scale": values(8)},
        values(2, 5, 8, step=0.9),
    ),
    "conv_net": (
        conv_net,
        {
            "kernels": [values(3, 3, 2, 4), values(3, 3, 4, 4, step=0.6)],
            "w": values(16, 3, step=0.8),
        },
        values(2, 8, 8, 2, step=0.51),
    ),
}


def summary(gradients):
    """Return one number for each leaf, which depends on all elements."""
    leaves = devrt.tree_util.tree_leaves(gradients)
    return [float(np.sum(np.asarray(g, np.float64) * values(*g.shape, step=1.3))) for g in leaves]


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_jax_s(name):
    loss, params, *rest = NETWORKS[name]
    value, gradients = devrt.jit(devrt.value_and_grad(loss))(params, *rest)
    np.testing.assert_allclose([float(value), *summary(gradients)], JAX[name], rtol=2e-4, atol=1e-6)
