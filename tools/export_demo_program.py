"""Write the program that ``devrt demo`` runs: a classifier of digits, trained and exported by JAX.

    python tools/export_demo_program.py packages/devrt-core/src/devrt/examples/data

Needs jax and scikit-learn, which the project does not depend on. The program divides its images
over eight devices; its weights lie beside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

Weights = Sequence[jax.Array]

HELD_OUT = 800  # images that training never sees: eight devices of a hundred
HIDDEN = 64
STEPS = 400
RATE = 0.5
MOMENTUM = 0.9


def logits(weights: Weights, images: jax.Array) -> jax.Array:
    """Return ten scores for each image of 64 pixels from 0 to 16."""
    w1, b1, w2, b2 = weights
    return jax.nn.relu(images / 16.0 @ w1 + b1) @ w2 + b2


def train(images: jax.Array, labels: jax.Array) -> list[jax.Array]:
    """Return weights after full-batch gradient descent with momentum."""
    k1, k2 = jax.random.split(jax.random.key(0))
    weights = [
        jax.random.normal(k1, (64, HIDDEN)) / 8.0,
        jnp.zeros(HIDDEN),
        jax.random.normal(k2, (HIDDEN, 10)) / 8.0,
        jnp.zeros(10),
    ]

    def loss(weights: Weights) -> jax.Array:
        scores = jax.nn.log_softmax(logits(weights, images))
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    @jax.jit
    def step(weights: Weights, speeds: Weights) -> tuple[list[jax.Array], list[jax.Array]]:
        slopes = jax.grad(loss)(weights)
        speeds = [MOMENTUM * v - RATE * g for v, g in zip(speeds, slopes, strict=True)]
        return [w + v for w, v in zip(weights, speeds, strict=True)], speeds

    speeds = [jnp.zeros_like(w) for w in weights]
    for _ in range(STEPS):
        weights, speeds = step(weights, speeds)
    return weights


def main(folder: Path) -> None:
    """Train, say how good it is, and write ``digits.mlirbc`` and ``digits.npz``."""
    digits = load_digits()
    images, labels = digits.data.astype("f4"), digits.target
    weights = train(images[:-HELD_OUT], jnp.asarray(labels[:-HELD_OUT]))

    def classify(*arguments: jax.Array) -> tuple[jax.Array, jax.Array]:
        *weights, images = arguments
        scores = logits(weights, images)
        return jnp.argmax(scores, axis=1).astype(jnp.int32), scores

    found = np.asarray(classify(*weights, images[-HELD_OUT:])[0])
    right = (found == labels[-HELD_OUT:]).mean()
    sys.stdout.write(f"held out: {right:.3f} right\n")

    mesh = jax.make_mesh((8,), ("images",), axis_types=(AxisType.Auto,))
    whole = NamedSharding(mesh, PartitionSpec())
    rows = NamedSharding(mesh, PartitionSpec("images"))
    jitted = jax.jit(classify, in_shardings=(*[whole] * 4, rows), out_shardings=rows)
    shapes = [jax.ShapeDtypeStruct(w.shape, w.dtype) for w in weights]
    exported = jax.export.export(jitted)(*shapes, jax.ShapeDtypeStruct((HELD_OUT, 64), jnp.float32))
    folder.mkdir(exist_ok=True)
    (folder / "digits.mlirbc").write_bytes(exported.mlir_module_serialized)
    arrays = dict(zip(("w1", "b1", "w2", "b2"), map(np.asarray, weights), strict=True))
    np.savez(folder / "digits.npz", **arrays)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
