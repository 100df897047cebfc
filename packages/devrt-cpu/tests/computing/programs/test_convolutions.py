"""Convolutional networks: kinds of convolutions, a residual network, and PyTorch's of the same."""

import numpy as np
import pytest

import devrt
from devrt import lax
from devrt import numpy as jnp

pytestmark = pytest.mark.engine


def relu(x):
    return jnp.maximum(x, 0)


def average_pool(x, size):
    window = (1, 1, size, size)
    return lax.reduce_window(x, 0.0, lax.add, window, window, "VALID") / size**2


@devrt.jit
def kinds(depthwise, grouped, plain, strided, transposed, x):
    """Return what one convolution of each kind makes, one after the other."""

    def conv(x, kernel, padding, **kwargs):
        return lax.conv_general_dilated(x, kernel, (1, 1), padding, **kwargs)

    same = [(1, 1), (1, 1)]
    x = conv(x, plain, same)
    x = conv(x, depthwise, same, feature_group_count=x.shape[1])
    x = conv(x, grouped, [(2, 2), (2, 2)], rhs_dilation=(2, 2), feature_group_count=4)
    image = conv(x, transposed, same, lhs_dilation=(2, 2))
    line = average_pool(image, 2).reshape(*x.shape[:2], -1)
    line = lax.conv_general_dilated(
        line, strided, (2,), "SAME", dimension_numbers=("NCH", "OIH", "NCH")
    )
    gate = jnp.clip(line + 3, 0, 6) / 6
    return image / (1 + jnp.exp(-image)), line * gate


def test_kinds_of_convolutions(agrees):
    agrees("conv_kinds", kinds)


class Layout:
    """How images and kernels lie: JAX's examples and PyTorch's modules differ."""

    def __init__(self, numbers, padding):
        self.numbers, self.padding = numbers, padding
        self.channels = numbers[0].index("C")
        self.around = tuple(i for i in range(4) if numbers[0][i] in "HW")

    def conv(self, x, kernel, stride=1):
        size = kernel.shape[self.numbers[1].index("H")]
        return lax.conv_general_dilated(
            x, kernel, (stride, stride), self.padding(size), dimension_numbers=self.numbers
        )

    def norm(self, x, scale, shift, mean, variance):
        shape = [1] * 4
        shape[self.channels] = -1
        scale, shift, mean, variance = (v.reshape(shape) for v in (scale, shift, mean, variance))
        return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift

    def max_pool(self, x):
        window, stride = ([3, 2][is_stride] for is_stride in (False, True))
        sizes = [window if i in self.around else 1 for i in range(4)]
        strides = [stride if i in self.around else 1 for i in range(4)]
        padding = self.padding(window)
        if not isinstance(padding, str):
            padding = [padding[0] if i in self.around else (0, 0) for i in range(4)]
        return lax.reduce_window(x, -jnp.inf, lax.max, sizes, strides, padding)


JAX = Layout(("NHWC", "HWIO", "NHWC"), lambda size: "SAME")
TORCH = Layout(("NCHW", "OIHW", "NCHW"), lambda size: [(size // 2, size // 2)] * 2)


def residual_network(layout, norms, kernels, x):
    """Return the features of images: a stem, a block, and a block that halves their size."""
    stem, first, second, third, fourth, shortcut = kernels

    def step(x, kernel, norm, stride=1):
        return layout.norm(layout.conv(x, kernel, stride), *norm)

    x = layout.max_pool(relu(step(x, stem, norms[0], 2)))
    x = relu(x + step(relu(step(x, first, norms[1])), second, norms[2]))
    y = step(relu(step(x, third, norms[3], 2)), fourth, norms[4])
    x = relu(y + step(x, shortcut, norms[5], 2))
    return jnp.mean(x, axis=layout.around)


def test_a_residual_network(agrees):
    @devrt.jit
    def predict(*args):
        norms = [args[at : at + 4] for at in range(0, 24, 4)]
        bias, weights, shortcut, stem, x = args[28:]
        features = residual_network(JAX, norms, [stem, *args[24:28], shortcut], x)
        logits = features @ weights + bias
        scores = jnp.exp(logits - jnp.max(logits, axis=-1, keepdims=True))
        return [scores / jnp.sum(scores, axis=-1, keepdims=True)]

    def draw(rng, avals):
        return [np.abs(rng.normal(size=shape).astype("float32")) * 0.1 for shape, _ in avals]

    agrees("resnet", predict, draw=draw)


def test_pytorch_s_residual_network(agrees):
    @devrt.jit
    def predict(*args):
        layers = [args[at : at + 3] for at in range(0, 18, 3)]
        statistics = [args[at : at + 2] for at in range(20, 32, 2)]
        norms = [(*layer[1:], *s) for layer, s in zip(layers, statistics, strict=True)]
        features = residual_network(TORCH, norms, [kernel for kernel, *_ in layers], args[32])
        return [features @ args[18].T + args[19]]

    agrees("resnet_torch", predict)
