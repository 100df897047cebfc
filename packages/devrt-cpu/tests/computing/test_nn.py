"""Activations, softmax and its like: values and gradients are those of JAX 0.10.2."""

import numpy as np
import pytest

import devrt
from devrt import nn
from devrt import numpy as dnp

pytestmark = pytest.mark.engine

X = np.float32([-3.5, -1, 0, 2.5, 7])
ROWS = np.float32([[1, -2, 3], [0.5, 0.5, -9]])
MASK = np.array([[True, False, True], [False, True, False]])
INF = float("inf")

# Of X: the values, and the gradient of their sum weighed by 1 to 5.
JAX = {
    "celu": ([-0.969803, -0.632121, 0.0, 2.5, 7.0], [0.0301974, 0.735759, 3.0, 4.0, 5.0]),
    "elu": ([-0.969803, -0.632121, 0.0, 2.5, 7.0], [0.0301974, 0.735759, 3.0, 4.0, 5.0]),
    "gelu": (
        [-0.000616148, -0.158808, 0.0, 2.48492, 7.0],
        [-0.00242259, -0.165928, 1.5, 4.15181, 5.0],
    ),
    "hard_sigmoid": ([0.0, 0.333333, 0.5, 0.916667, 1.0], [0.0, 0.333333, 0.5, 0.666667, 0.0]),
    "hard_tanh": ([-1.0, -1.0, 0.0, 1.0, 1.0], [0.0, 2.0, 3.0, 0.0, 0.0]),
    "leaky_relu": ([-0.035, -0.01, 0.0, 2.5, 7.0], [0.01, 0.02, 3.0, 4.0, 5.0]),
    "log_sigmoid": (
        [-3.52975, -1.31326, -0.693147, -0.0788897, -0.000911466],
        [0.970688, 1.46212, 1.5, 0.303433, 0.00455526],
    ),
    "relu": ([0.0, 0.0, 0.0, 2.5, 7.0], [0.0, 0.0, 0.0, 4.0, 5.0]),
    "relu6": ([0.0, 0.0, 0.0, 2.5, 6.0], [0.0, 0.0, 0.0, 4.0, 0.0]),
    "sigmoid": (
        [0.0293122, 0.268941, 0.5, 0.924142, 0.999089],
        [0.028453, 0.393224, 0.75, 0.280415, 0.00455084],
    ),
    "silu": (
        [-0.102593, -0.268941, 0.0, 2.31035, 6.99362],
        [-0.0702733, 0.144659, 1.5, 4.3976, 5.0273],
    ),
    "soft_sign": (
        [-0.777778, -0.5, 0.0, 0.714286, 0.875],
        [0.0493827, 0.5, 3.0, 0.326531, 0.078125],
    ),
    "softplus": (
        [0.0297504, 0.313262, 0.693147, 2.57889, 7.00091],
        [0.0293122, 0.537883, 1.5, 3.69657, 4.99545],
    ),
    "tanh": (
        [-0.998178, -0.761594, 0.0, 0.986614, 0.999998],
        [0.00364077, 0.839949, 3.0, 0.106369, 1.66893e-05],
    ),
    "softmax": (
        [2.71996e-05, 0.000331359, 0.000900728, 0.0109731, 0.987768],
        [-0.000108421, -0.000989479, -0.00178896, -0.0108208, 0.0137067],
    ),
    "log_softmax": (
        [-10.5123, -8.01231, -7.01231, -4.51231, -0.0123078],
        [0.999592, 1.99503, 2.98649, 3.8354, -9.81651],
    ),
    "standardize": (
        [-1.26273, -0.561213, -0.280607, 0.42091, 1.68364],
        [-0.0740186, -0.0640757, 0.108266, 0.118208, -0.0883796],
    ),
}

OF_ROWS = {
    "exact gelu": (
        lambda: nn.gelu(X, approximate=False),
        [-0.000814202, -0.158655, 0.0, 2.48448, 7.0],
    ),
    "softmax of all": (
        lambda: nn.softmax(ROWS, axis=(0, 1)),
        [[0.103606, 0.00515824, 0.765551], [0.0628402, 0.0628402, 4.70371e-06]],
    ),
    "softmax of some": (
        lambda: nn.softmax(ROWS, where=MASK),
        [[0.119203, 0, 0.880797], [0, 1, 0]],
    ),
    "softmax of none": (lambda: nn.softmax(ROWS[0], where=np.zeros(3, bool)), [0, 0, 0]),
    "log_softmax of columns": (
        lambda: nn.log_softmax(ROWS, axis=0),
        [[-0.474077, -2.57889, -6.19886e-06], [-0.974077, -0.0788897, -12.0]],
    ),
    "logsumexp of all": (lambda: nn.logsumexp(ROWS), 3.26716),
    "logsumexp of some": (lambda: nn.logsumexp(ROWS, axis=1, where=MASK), [3.12693, 0.5]),
    "logsumexp of nothing": (lambda: nn.logsumexp(np.float32([-INF, -INF])), -INF),
    "logsumexp with factors": (
        lambda: dnp.stack(
            nn.logsumexp(ROWS, axis=1, b=np.float32([-1, 2, -0.5]), return_sign=True)
        ),
        [[2.52496, 0.499963], [-1, 1]],
    ),
    "logsumexp kept": (lambda: nn.logsumexp(ROWS, keepdims=True), [[3.26716]]),
    "standardize columns": (
        lambda: nn.standardize(ROWS, axis=0),
        [[0.99992, -0.999997, 1.0], [-0.99992, 0.999997, -1.0]],
    ),
    "one_hot": (
        lambda: nn.one_hot(np.array([0, 2, 5, -1]), 3),
        [[1, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 0]],
    ),
    "one_hot first": (
        lambda: nn.one_hot(np.array([[0, 2], [1, 1]]), 3, axis=0, dtype="int8"),
        [[[1, 0], [0, 0]], [[0, 0], [1, 1]], [[0, 1], [0, 0]]],
    ),
}


@pytest.mark.parametrize("name", JAX)
def test_values_and_gradients_of_elements(name):
    function = getattr(nn, name)
    values, slopes = JAX[name]
    weighed = devrt.grad(lambda x: (function(x) * dnp.arange(1.0, 6.0)).sum())
    for found in function(X), devrt.jit(function)(X):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, values, rtol=1e-5, atol=2e-6)
    np.testing.assert_allclose(weighed(X), slopes, rtol=1e-4, atol=2e-5)
    assert function(dnp.asarray(X, "bfloat16")).dtype == "bfloat16"


@pytest.mark.parametrize("name", OF_ROWS)
def test_values_along_axes(name):
    function, wanted = OF_ROWS[name]
    found = function()
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_dtypes_and_what_is_no_number():
    assert nn.one_hot(np.array([0]), 2, dtype="int8").dtype == np.int8
    assert nn.relu(np.int32([-1, 2])).tolist() == [0, 2]
    assert nn.relu(np.int32([-1, 2])).dtype == np.int32
    assert nn.silu(np.int32([1])).dtype == np.float32
    assert np.isnan(np.asarray(nn.relu(np.float32([np.nan])))).all()
    assert nn.swish is nn.silu


def test_gradients_far_out_are_numbers():
    far = np.float32([-200, 200])
    for name in JAX:
        slopes = devrt.grad(lambda x, name=name: getattr(nn, name)(x).sum())(far)
        assert np.isfinite(np.asarray(slopes)).all(), name
    slopes = devrt.grad(lambda x: nn.softmax(x, where=np.array([True, False]))[0])(far)
    assert np.isfinite(np.asarray(slopes)).all()
