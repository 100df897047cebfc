"""A transformer block on a 2-D mesh: batches along one axis, heads along the other.

Run ``python transformer_block.py``. The function is written for one device; where values lie is
stated for the arguments, and by two constraints inside. The compiler adds what devices send.
"""

import math

import numpy as np

import devrt
import devrt.numpy as dnp
from devrt import NamedSharding, P, lax, random

ROWS, COLUMNS = 2, 4
BATCH, LENGTH, SIZE, HEADS, HIDDEN = 4, 8, 32, 4, 64
SPECS = {
    "qkv": P(None, None, "model", None),
    "out": P("model", None, None),
    "up": P(None, "model"),
    "down": P("model", None),
}


def new_params(key):
    """Return the block's matrices."""
    shapes = {
        "qkv": (SIZE, 3, HEADS, SIZE // HEADS),
        "out": (HEADS, SIZE // HEADS, SIZE),
        "up": (SIZE, HIDDEN),
        "down": (HIDDEN, SIZE),
    }
    keys = random.split(key, len(shapes))
    return {
        name: random.normal(k, shape) / math.sqrt(shape[0] if name != "out" else SIZE)
        for k, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def normalized(x):
    """Return rows with mean 0 and variance 1."""
    centred = x - dnp.mean(x, axis=-1, keepdims=True)
    return centred * lax.rsqrt(dnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def attended(params, x):
    """Return what each position takes from those before it."""
    q, k, v = (dnp.einsum("bld,dhe->bhle", x, params["qkv"][:, i]) for i in range(3))
    scores = dnp.einsum("bhle,bhme->bhlm", q, k) / math.sqrt(SIZE // HEADS)
    is_before = np.tril(np.ones((LENGTH, LENGTH), bool))
    scores = dnp.where(is_before, scores, np.float32(-1e9))
    weights = dnp.exp(scores - lax.stop_gradient(dnp.max(scores, axis=-1, keepdims=True)))
    weights = weights / dnp.sum(weights, axis=-1, keepdims=True)
    mixed = dnp.einsum("bhlm,bhme->bhle", weights, v)
    return dnp.einsum("bhle,hed->bld", mixed, params["out"])


def block(params, x, constrain=lambda x, spec: x):
    """Return the block's output."""
    x = constrain(x + attended(params, normalized(x)), P("data", None, None))
    hidden = constrain(dnp.maximum(normalized(x) @ params["up"], 0), P("data", None, "model"))
    return x + hidden @ params["down"]


def main():
    """Compute output and gradients on eight devices and on one, and compare."""
    devrt.config.update("num_cpu_devices", ROWS * COLUMNS)
    devices = devrt.devices()[: ROWS * COLUMNS]
    mesh = devrt.make_mesh((ROWS, COLUMNS), ("data", "model"), devices=devices)
    params, x = new_params(random.key(0)), random.normal(random.key(1), (BATCH, LENGTH, SIZE))

    divided = {
        name: devrt.device_put(value, NamedSharding(mesh, SPECS[name]))
        for name, value in params.items()
    }
    batch = devrt.device_put(x, NamedSharding(mesh, P("data")))
    for name, value in {"batch": batch, **divided}.items():
        shape = value.addressable_shards[0].data.shape
        print(f"{name} {value.shape} as {value.sharding.spec}: {shape} on each device")
    print("Batches along the rows of the mesh, heads along its columns:")
    for row in mesh.devices:
        print("  " + "  ".join(map(str, row)))

    def on_mesh(x, spec):
        return lax.with_sharding_constraint(x, NamedSharding(mesh, spec))

    def loss(params, x, constrain=lambda x, spec: x):
        return dnp.mean(block(params, x, constrain) ** 2)

    output = devrt.jit(lambda p, x: block(p, x, on_mesh))(divided, batch)
    print(f"The output {output.shape} lies as {output.sharding.spec}")
    slopes = devrt.jit(devrt.grad(lambda p, x: loss(p, x, on_mesh)))(divided, batch)
    expected = devrt.grad(loss)(params, x)
    apart = float(np.abs(np.asarray(output) - np.asarray(devrt.jit(block)(params, x))).max())
    print(f"On one device: {apart:.1e} apart")
    good = apart < 1e-4
    for name, slope in slopes.items():
        apart = float(np.abs(np.asarray(slope) - np.asarray(expected[name])).max())
        print(f"Gradient of {name}: {slope.sharding.spec}, {apart:.1e} apart from one device's")
        good = good and apart < 1e-4
    return good


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
