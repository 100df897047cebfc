"""Chunked inference: more data than a device should hold goes through it piece by piece.

Run ``python chunked_inference.py``. Each chunk is put while the one before is computed; the last
one is padded, so that one compiled program does for all; and the results come back to the host.
"""

import numpy as np

import devrt
import devrt.numpy as dnp
from devrt import NamedSharding, P, random

DEVICES, ROWS, CHUNK, SIZE = 4, 10_300, 2_048, 64


def model(w, x):
    """Return a label for each row."""
    return dnp.argmax(dnp.tanh(x @ w), axis=1)


def chunks(x):
    """Yield pieces of as many rows each, and how many rows of each are data."""
    for start in range(0, len(x), CHUNK):
        piece = x[start : start + CHUNK]
        yield np.pad(piece, ((0, CHUNK - len(piece)), (0, 0))), len(piece)


def classify(w, x, sharding):
    """Return the labels of all rows; prints which part of a chunk is computed where."""
    run, waiting, labels = devrt.jit(model), None, []
    for i, (piece, count) in enumerate(chunks(x)):
        given = devrt.device_put(piece, sharding)  # returns at once
        if i == 0:
            for shard in given.addressable_shards:
                rows = shard.index[0]
                print(f"  rows {rows.start or 0} to {rows.stop - 1} of a chunk on {shard.device}")
        started = run(w, given), count  # returns at once too
        if waiting is not None:
            labels.append(np.asarray(waiting[0])[: waiting[1]])
        waiting = started
        print(f"  chunk {i}: {count} rows")
    labels.append(np.asarray(waiting[0])[: waiting[1]])
    return np.concatenate(labels)


def main():
    """Classify rows in chunks, and compare with all of them at once."""
    devrt.config.update("num_cpu_devices", DEVICES)
    mesh = devrt.make_mesh((DEVICES,), ("rows",), devices=devrt.devices()[:DEVICES])
    x = np.random.default_rng(0).normal(size=(ROWS, SIZE)).astype(np.float32)
    w = devrt.device_put(random.normal(random.key(0), (SIZE, 10)), NamedSharding(mesh, P()))
    print(f"{ROWS} rows in chunks of {CHUNK}, each over {DEVICES} devices:")
    labels = classify(w, x, NamedSharding(mesh, P("rows")))
    whole = np.asarray(devrt.jit(model)(np.asarray(w), x))
    same = int(np.sum(labels == whole))
    print(f"{len(labels)} labels; {same} are those of all rows at once on one device")
    return len(labels) == ROWS and same >= ROWS - 2


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
