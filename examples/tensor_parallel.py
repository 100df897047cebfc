"""A tensor-parallel MLP: every device has some of the hidden units, and the sum is over devices.

Run ``python tensor_parallel.py``. The first matrix is divided by columns and the second by rows, so
that the devices talk once for each pass: one sum, forward, and one, back.
"""

import math

import numpy as np

import devrt
import devrt.numpy as dnp
from devrt import NamedSharding, P, lax, random

DEVICES, SIZE, HIDDEN = 8, 16, 256
SPECS = {"up": P(None, "model"), "down": P("model", None)}


def new_params(key):
    """Return the two matrices."""
    first, second = random.split(key)
    return {
        "up": random.normal(first, (SIZE, HIDDEN)) / math.sqrt(SIZE),
        "down": random.normal(second, (HIDDEN, SIZE)) / math.sqrt(HIDDEN),
    }


def mlp(params, x):
    """Return the output of the network, on one device."""
    return dnp.maximum(x @ params["up"], 0) @ params["down"]


def part(params, x):
    """Return the output of the network, from what one device has of it."""
    mine = dnp.maximum(x @ params["up"], 0) @ params["down"]
    return lax.psum(mine, "model")


def main():
    """Compute output and gradients on eight devices and on one, and compare."""
    devrt.config.update("num_cpu_devices", DEVICES)
    mesh = devrt.make_mesh((DEVICES,), ("model",), devices=devrt.devices()[:DEVICES])
    params, x = new_params(random.key(0)), random.normal(random.key(1), (32, SIZE))
    divided = {
        name: devrt.device_put(value, NamedSharding(mesh, SPECS[name]))
        for name, value in params.items()
    }
    for name, value in divided.items():
        shards = value.addressable_shards
        print(f"{name} {value.shape} as {SPECS[name]}: {shards[0].data.shape} on each device")
        for shard in (shards[0], shards[-1]):
            print(f"  {shard.index} on {shard.device}")

    whole = devrt.shard_map(part, mesh=mesh, in_specs=(SPECS, P()), out_specs=P())
    print(f"The output {whole(divided, x).shape} is the same on all devices")

    def loss(network):
        return lambda params, x: dnp.mean(network(params, x) ** 2)

    value, slopes = devrt.jit(devrt.value_and_grad(loss(whole)))(divided, x)
    alone, expected = devrt.value_and_grad(loss(mlp))(params, x)
    print(f"Loss {float(value):.6f}; on one device {float(alone):.6f}")
    good = abs(float(value) - float(alone)) < 1e-4
    for name, slope in slopes.items():
        apart = float(np.abs(np.asarray(slope) - np.asarray(expected[name])).max())
        print(f"Gradient of {name}: {slope.sharding.spec}, {apart:.1e} apart from one device's")
        good = good and apart < 1e-4
    return good


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
