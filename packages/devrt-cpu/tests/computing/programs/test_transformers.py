"""Transformers: attention in bfloat16, a block, and a step of training through all layers."""

import functools
import math

import numpy as np
import pytest

import devrt
from devrt import lax, tree_util
from devrt import numpy as jnp

pytestmark = pytest.mark.engine


def softmax(x):
    weights = jnp.exp(x - lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True)))
    return weights / jnp.sum(weights, axis=-1, keepdims=True)


def log_softmax(x):
    shifted = x - lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True))
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=-1, keepdims=True))


def layer_norm(x, scale, shift):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


@devrt.jit
def grouped_attention(q, k, v, lengths, segments):
    """Attend to earlier positions of the same segment; several heads share a key and a value."""
    batch, size, heads, width = q.shape
    q = q.reshape(batch, size, k.shape[2], heads // k.shape[2], width)
    scores = jnp.einsum("btkgd,bskd->bkgts", q, k, preferred_element_type="float32")
    at = jnp.arange(size)
    is_earlier = at[:, None] >= at[None, :]
    is_filled = at[None, None, :] < lengths[:, None, None]
    is_near = segments[:, :, None] == segments[:, None, :]
    is_seen = (is_earlier & is_filled & is_near)[:, None, None]
    weights = softmax(jnp.where(is_seen, scores / math.sqrt(width), -1e30)).astype(v.dtype)
    return jnp.einsum("bkgts,bskd->btkgd", weights, v).reshape(batch, size, heads * width)


def test_attention_in_bfloat16(agrees):
    def run(q, k, v, lengths, segments):
        q, k, v = (np.asarray(a).view(jnp.bfloat16) for a in (q, k, v))
        return [grouped_attention(q, k, v, lengths, segments)]

    def draw(rng, avals):
        drawn = [rng.normal(size=shape).astype(jnp.bfloat16) for shape, _ in avals[:3]]
        size = avals[0][0][1]
        lengths = rng.integers(1, size, avals[3][0], dtype=np.int32)
        return [*drawn, lengths, np.sort(rng.integers(3, size=avals[4][0], dtype=np.int32))]

    agrees("attention_bf16", run, draw=draw, rtol=1e-2)


def causal_attention(x, qkv, out, heads):
    batch, size, width = x.shape
    q, k, v = jnp.split((x @ qkv).reshape(batch, size, 3 * heads, -1), 3, axis=2)
    scores = jnp.einsum("bthd,bshd->bhts", q, k) / math.sqrt(width // heads)
    is_earlier = jnp.tril(jnp.ones((size, size), bool))
    weights = softmax(jnp.where(is_earlier, scores, jnp.finfo(scores.dtype).min))
    return jnp.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape) @ out


def gelu(x):
    return 0.5 * x * lax.erfc(-x * math.sqrt(0.5))


@devrt.jit(static_argnames="heads")
def block(p, x, heads):
    x = x + causal_attention(layer_norm(x, *p["ln1"]), p["qkv"], p["o"], heads)
    return x + gelu(layer_norm(x, *p["ln2"]) @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"]


LAYER = {"b1": 0, "b2": 0, "ln1": (0, 0), "ln2": (0, 0), "o": 0, "qkv": 0, "w1": 0, "w2": 0}
"""A layer's weights; their leaves lie in this order."""


def params_of(leaves, tree=LAYER):
    return tree_util.tree_unflatten(tree_util.tree_structure(tree), leaves)


def test_a_block(agrees):
    def run(*args, heads=4):
        return [block(params_of(args[:-1]), args[-1], heads)]

    agrees("transformer_block", run, larger=functools.partial(run, heads=8))


@pytest.mark.parametrize("rows", [slice(0, 1), slice(1, 2), [0, 1, 0, 1, 1]])
def test_a_batch_of_any_size(recorded, rows):
    (*weights, x), (wanted,) = recorded("transformer_block")
    got = block(params_of(weights), x[rows], 4)
    np.testing.assert_allclose(got, wanted[rows], rtol=1e-4, atol=1e-5)


def tanh_gelu(x):
    return 0.5 * x * (1 + jnp.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


@devrt.jit(static_argnames="heads")
def train_step(params, tokens, heads):
    """Return new weights, the loss, and the gradient's length, which is cut to at most 1."""

    @devrt.checkpoint
    def layer(x, p):
        x = x + causal_attention(layer_norm(x, *p["ln1"]), p["qkv"], p["o"], heads)
        mlp = tanh_gelu(layer_norm(x, *p["ln2"]) @ p["w1"] + p["b1"])
        return x + mlp @ p["w2"] + p["b2"], None

    def loss_of(params):
        x = params["emb"][tokens[:, :-1]] + params["pos"]
        x, _ = lax.scan(layer, x, params["lay"])
        logits = layer_norm(x, *params["ln"]) @ params["emb"].T
        logs = log_softmax(logits).reshape(-1, logits.shape[-1])
        return -jnp.mean(jnp.take_along_axis(logs, tokens[:, 1:].reshape(-1, 1), axis=1))

    loss, grads = devrt.value_and_grad(loss_of)(params)
    length = jnp.sqrt(sum(jnp.sum(g * g) for g in tree_util.tree_leaves(grads)))
    rate = 0.1 * jnp.minimum(1.0, 1.0 / length)
    return tree_util.tree_map(lambda p, g: p - rate * g, params, grads), loss, length


def test_a_step_of_training(agrees):
    tree = {"emb": 0, "lay": LAYER, "ln": (0, 0), "pos": 0}

    def run(*args, heads=2):
        return tree_util.tree_leaves(train_step(params_of(args[:-1], tree), args[-1], heads))

    def draw(rng, avals):
        drawn = [rng.normal(scale=0.1, size=shape).astype("float32") for shape, _ in avals[:-1]]
        return [*drawn, rng.integers(avals[0][0][0], size=avals[-1][0], dtype=np.int32)]

    agrees("gpt_train_step", run, larger=functools.partial(run, heads=4), draw=draw, updated=14)


def test_pytorch_s_language_model(agrees):
    def linear(x, weights, bias):
        return x @ weights.T + bias

    def attend(x, qkv, qkv_bias, out, out_bias, heads=4):
        batch, size, width = x.shape
        parts = linear(x, qkv, qkv_bias).reshape(batch, size, 3, heads, -1)
        q, k, v = jnp.unstack(jnp.transpose(parts, (2, 0, 3, 1, 4)))
        scores = q @ jnp.matrix_transpose(k) / math.sqrt(width // heads)
        scores = scores + jnp.where(jnp.tri(size, dtype=bool), 0, -jnp.inf)
        mixed = softmax(scores) @ v
        return linear(jnp.swapaxes(mixed, 1, 2).reshape(x.shape), out, out_bias)

    @devrt.jit
    def predict(*args):
        tokens, positions, *rest, scale, shift, head, ids = args
        x = tokens[ids] + positions[: ids.shape[1]]
        for p in (rest[:12], rest[12:]):
            x = x + attend(layer_norm(x, *p[4:6]), *p[:4])
            x = x + linear(gelu(linear(layer_norm(x, *p[6:8]), *p[8:10])), *p[10:])
        return [log_softmax(layer_norm(x, scale, shift) @ head.T)]

    agrees("lm_torch", predict)
