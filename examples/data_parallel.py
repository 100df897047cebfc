"""Data-parallel training: every device has the whole model and a part of each batch.

Run ``python data_parallel.py``. It takes eight devices of the host, and prints where things lie,
how the loss falls, and that one device alone would have learnt the same.
"""

import math

import devrt
import devrt.numpy as dnp
from devrt import NamedSharding, P, random

DEVICES, STEPS, RATE = 8, 150, 0.5


def data(key, count=512):
    """Return points of the plane, and whether each lies between two circles."""
    points = random.uniform(key, (count, 2), minval=-1.5, maxval=1.5)
    distance = dnp.sum(points * points, axis=1)
    return points, ((distance > 0.4) & (distance < 1.4)).astype("float32")


def new_params(key, sizes=(2, 32, 1)):
    """Return the weights of a network with some layers."""
    keys = random.split(key, len(sizes) - 1)
    shapes = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return [{"w": random.normal(k, (n, m)) / math.sqrt(n), "b": dnp.zeros(m)} for k, n, m in shapes]


def predict(params, x):
    """Return a number for each row; it is positive where the network says yes."""
    for layer in params[:-1]:
        x = dnp.tanh(x @ layer["w"] + layer["b"])
    return (x @ params[-1]["w"] + params[-1]["b"])[:, 0]


def loss(params, x, y):
    """Return the mean cross entropy."""
    score = predict(params, x)
    return dnp.mean(dnp.maximum(score, 0) - score * y + dnp.log1p(dnp.exp(-dnp.abs(score))))


@devrt.jit
def step(params, x, y):
    """Return weights after one step downhill, and the loss before it.

    Nothing here says how many devices there are: the compiler sums the gradients over those that
    the batch is divided among.
    """
    value, slopes = devrt.value_and_grad(loss)(params, x, y)
    return devrt.tree.map(lambda p, g: p - RATE * g, params, slopes), value


def train(params, x, y):
    """Return trained weights, and the loss of each step."""
    values = []
    for _ in range(STEPS):
        params, value = step(params, x, y)
        values.append(float(value))
    return params, values


def main():
    """Train on eight devices, then on one, and compare."""
    devrt.config.update("num_cpu_devices", DEVICES)
    mesh = devrt.make_mesh((DEVICES,), ("data",), devices=devrt.devices()[:DEVICES])
    x, y = data(random.key(0))
    params = new_params(random.key(1))

    divided = NamedSharding(mesh, P("data"))
    shared = devrt.device_put(params, NamedSharding(mesh, P()))
    batch = devrt.device_put((x, y), divided)
    print(f"The batch {batch[0].shape} over {DEVICES} devices:")
    for shard in batch[0].addressable_shards:
        print(f"  rows {shard.index[0].start or 0} to {shard.index[0].stop - 1} on {shard.device}")
    print(f"The weights {shared[0]['w'].shape} are whole on each: {shared[0]['w'].sharding.spec}")

    trained, values = train(shared, *batch)
    print(f"Loss {values[0]:.4f} at first, {values[-1]:.4f} after {STEPS} steps")
    print(f"The trained weights lie as before: {trained[0]['w'].sharding.spec}")
    _, alone = train(params, x, y)
    apart = max(abs(a - b) for a, b in zip(values, alone, strict=True))
    print(f"One device alone: losses {apart:.1e} apart")
    return values[-1] < values[0] / 1.2 and apart < 1e-3


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
