"""Real data over a mesh of devices: discover, shard, move, learn, and check it bit for bit.

``devrt demo`` runs this, as does ``python -m devrt.examples.digits``.
"""

from __future__ import annotations

import statistics
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import devrt
import devrt.numpy as dnp
from devrt.contract.installation import how_to_install
from devrt.errors import BackendInitializationError, InvalidArgumentError, UnimplementedError
from devrt.sharding import render_sharding

__all__ = ["HELD_OUT", "classify", "expected", "load", "run"]

NumPyArray = np.ndarray[Any, Any]
Weights = Sequence[Any]

HELD_OUT = 800
"""The last images of the data set, which the classifier is not trained on."""

_HOST = "cpu"
_PARTS = 8  # the devices that the classifier divides its images over
_STEPS = 150
_DAMAGES = (ValueError, OSError, EOFError, SyntaxError, zipfile.BadZipFile, zlib.error)


def run(path: str | None = None, count: int = 8) -> bool:
    """Run every step over ``count`` devices of the host; return whether all comparisons agreed.

    Parameters
    ----------
    path
        An image, a .npy or a .npz file; None for scikit-learn's digits.
    count
        How many devices.
    """
    name, array, labels = load(path)
    print(f"\nInput: {name}\n  shape {array.shape}, {array.dtype}, {array.nbytes / 1024:.1f} KiB")
    print(f"\nBackends: {devrt.explain()}")
    devrt.config.update("num_cpu_devices", count)
    devices = devrt.devices(_HOST)[:count]
    sharded, checks = _shard(array, devices)
    checks += _move(sharded, devices)
    if labels is not None:
        checks += _learn(array, labels, devices)
    checks += _visit_others(array)
    _measure(sharded)
    print(f"\n{sum(checks)} of {len(checks)} comparisons bit for bit identical")
    return all(checks)


def load(path: str | None = None) -> tuple[str, NumPyArray, NumPyArray | None]:
    """Return what the data is called, an array, and what its rows show where that is known.

    Raises
    ------
    UnimplementedError
        If a package that the file needs is not installed; the message names it.
    InvalidArgumentError
        If the file holds no usable array.
    """
    try:
        if path is None:
            from sklearn.datasets import load_digits

            digits = load_digits()
            name = "scikit-learn's digits, 1797 handwritten digits of 8 by 8 pixels"
            return name, digits.data.astype(np.float32), digits.target
        name, array = _read(Path(path))
    except ModuleNotFoundError as error:
        package = "scikit-learn" if path is None else "pillow"
        command = how_to_install("devrt-core[demo]")
        msg = f"the data needs {package}, which is not installed: {command}."
        raise UnimplementedError(msg, missing=error.name) from error
    except _DAMAGES as error:
        msg = f"{path} cannot be read: {error}. Give an image, a .npy or a .npz file with an array."
        raise InvalidArgumentError(msg, path=path) from error
    if array.ndim == 0 or not array.size:
        msg = f"{path}: an array of shape {array.shape} has nothing to shard; give a larger one."
        raise InvalidArgumentError(msg, path=path)
    return name, np.ascontiguousarray(array), None


def _read(file: Path) -> tuple[str, NumPyArray]:
    if file.suffix.lower() not in (".npy", ".npz"):
        from PIL import Image

        with Image.open(file) as image:
            return f"{file.name}, {image.mode} image", np.asarray(image)
    with file.open("rb") as stream:
        loaded = np.load(stream, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return file.name, loaded
        largest = max(loaded.files, key=lambda name: loaded[name].nbytes)
        return f"{file.name}, array {largest!r}", loaded[largest]


def _shard(array: NumPyArray, devices: list[devrt.Device]) -> tuple[devrt.Array, list[bool]]:
    print(f"\nSharded by rows over a mesh of {len(devices)} {_HOST} devices")
    added = -len(array) % len(devices)
    if added:
        print(f"  {len(array)} rows do not divide by {len(devices)}: padded with {added}")
    padded = np.pad(array, [(0, added)] + [(0, 0)] * (array.ndim - 1))
    mesh = devrt.make_mesh((len(devices),), ("rows",), devices=devices)
    sharding = devrt.NamedSharding(mesh, devrt.P("rows"))
    sharded: devrt.Array = devrt.device_put(padded, sharding).block_until_ready()
    print(render_sharding(padded.shape[:2], sharding))
    gathered = devrt.device_get(sharded)
    return sharded, [
        _is_equal("gathered from all shards", gathered, padded),
        _is_equal("without the padding", gathered[: len(array)], array),
    ]


def _move(sharded: devrt.Array, devices: list[devrt.Device]) -> list[bool]:
    print("\nOne shard, moved about")
    shard = sharded.addressable_shards[-1]
    expected, current = np.asarray(shard.data), shard.data
    default = shard.device.default_memory().kind
    others = [m.kind for m in shard.device.addressable_memories() if m.kind != default]
    checks = []
    for kind in (*others, default):
        current = devrt.device_put(current, shard.device.memory(kind)).block_until_ready()
        checks.append(_is_equal(f"the last rows, of {shard.device}, in {kind}", current, expected))
    there = devrt.device_put(current, devices[0])
    return [*checks, _is_equal(f"the same shard on {devices[0]}", there, expected)]


def _learn(images: NumPyArray, labels: NumPyArray, devices: Sequence[devrt.Device]) -> list[bool]:
    print(f"\nA classifier, trained over {_PARTS} devices")
    if len(devices) < _PARTS:
        print(f"  left out: it needs {_PARTS} devices, and there are {len(devices)}")
        return []
    mesh = devrt.make_mesh((_PARTS,), ("rows",), devices=devices[:_PARTS])
    try:
        weights, losses = train(images[:-HELD_OUT], labels[:-HELD_OUT], mesh)
        found = np.asarray(classify(weights, _rows(images[-HELD_OUT:], mesh)))
    except UnimplementedError as error:  # no compiler: all else works without
        print(f"  left out: {error}")
        return []
    print(f"  images lie as {devrt.P('rows')} over {mesh.devices.size} devices, weights are whole")
    print(f"  loss {losses[0]:.3f} at first, {losses[-1]:.3f} after {len(losses)} steps")
    right = float(np.mean(found == labels[-HELD_OUT:]))
    print(f"  {len(found)} digits that it was not trained on: {right:.1%} right")
    same = expected([np.asarray(each) for each in weights], images[-HELD_OUT:])
    return [_is_equal("labels, as NumPy finds them", found, same)]


def train(images: NumPyArray, labels: NumPyArray, mesh: devrt.Mesh) -> tuple[Weights, NumPyArray]:
    """Train the classifier on images over a mesh, in one program.

    Returns
    -------
    weights, losses
        What was learnt, whole on each device, and the loss before each step.

    Raises
    ------
    UnimplementedError
        If the platform has no compiler; the message says what to install.
    """
    count = len(images) - len(images) % mesh.size
    batch = _rows(images[:count], mesh), _rows(labels[:count].astype(np.int32), mesh)
    whole = devrt.NamedSharding(mesh, devrt.P())
    trained, losses = _train(devrt.device_put(_new_weights(), whole), *batch)
    return trained, np.asarray(losses)


def classify(weights: Weights, images: Any) -> Any:
    """Return a label for each image."""
    return _labels(weights, images)


@devrt.jit
def _train(weights: Weights, images: Any, labels: Any) -> tuple[Weights, Any]:
    still = [dnp.zeros_like(each) for each in weights]

    def step(state: Any, _: None) -> Any:
        weights, speed = state
        value, slopes = devrt.value_and_grad(_loss)(weights, images, labels)
        speed = [0.9 * v - 0.1 * slope for v, slope in zip(speed, slopes, strict=True)]
        return ([w + v for w, v in zip(weights, speed, strict=True)], speed), value

    (trained, _), losses = devrt.lax.scan(step, (weights, still), None, length=_STEPS)
    return trained, losses


@devrt.jit
def _labels(weights: Weights, images: Any) -> Any:
    return dnp.argmax(_logits(weights, images), axis=1).astype("int32")


def _logits(weights: Weights, images: Any) -> Any:
    w1, b1, w2, b2 = weights
    return dnp.maximum(images / np.float32(16) @ w1 + b1, 0) @ w2 + b2


def _loss(weights: Weights, images: Any, labels: Any) -> Any:
    """Return the mean cross entropy."""
    logits = _logits(weights, images)
    logits = logits - dnp.max(logits, axis=1, keepdims=True)
    total = dnp.log(dnp.sum(dnp.exp(logits), axis=1))
    is_it = labels[:, None] == dnp.arange(10)
    return dnp.mean(total - dnp.sum(dnp.where(is_it, logits, 0.0), axis=1))


def _new_weights() -> list[NumPyArray]:
    first, second = devrt.random.split(devrt.random.key(0))
    sizes = (first, 64, 32), (second, 32, 10)
    pairs = [
        (np.asarray(devrt.random.normal(key, (n, m))) / np.float32(n**0.5), np.zeros(m, np.float32))
        for key, n, m in sizes
    ]
    return [each for pair in pairs for each in pair]


def _rows(array: NumPyArray, mesh: devrt.Mesh) -> devrt.Array:
    """Return an array over a mesh, by rows."""
    placed: devrt.Array = devrt.device_put(array, devrt.NamedSharding(mesh, devrt.P("rows")))
    return placed


def expected(weights: Sequence[NumPyArray], images: NumPyArray) -> NumPyArray:
    """Return the labels that NumPy finds with the same weights."""
    w1, b1, w2, b2 = weights
    hidden = np.maximum(images / np.float32(16) @ w1 + b1, 0)
    labels: NumPyArray = np.argmax(hidden @ w2 + b2, axis=1).astype(np.int32)
    return labels


def _visit_others(array: NumPyArray) -> list[bool]:
    """Put the array on a device of each other platform that can be used, and read it back."""
    checks = []
    usable = devrt.default_runtime().decide().usable
    for platform in (c.ref.platform for c in usable if not c.experimental):
        if platform == _HOST:
            continue
        try:
            device = devrt.local_devices(backend=platform)[0]
        except BackendInitializationError as error:  # the host's part stands all the same
            print(f"  left out: {error}")
            continue
        there = devrt.device_put(array, device).block_until_ready()
        checks.append(_is_equal(f"to {device} and back", devrt.device_get(there), array))
    return checks


def _measure(sharded: devrt.Array) -> None:
    print("\nThroughput (median of repeated runs)")
    host = devrt.device_get(sharded)
    put = _seconds(lambda: devrt.device_put(host, sharded.sharding).block_until_ready())
    get = _seconds(lambda: devrt.device_get(sharded.clone()))
    for what, seconds in (("put over the mesh", put), ("gather to the host", get)):
        print(f"  {what}: {host.nbytes / seconds / 1e9:.2f} GB/s ({seconds * 1e6:.0f} us)")


def _seconds(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(30):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _is_equal(what: str, got: Any, expected: NumPyArray) -> bool:
    host = np.asarray(got)
    is_same = host.shape == expected.shape and host.dtype == expected.dtype
    is_same = is_same and host.tobytes() == expected.tobytes()
    print(f"  {what}: {'identical' if is_same else 'DIFFERENT'}")
    return is_same


if __name__ == "__main__":
    raise SystemExit(0 if run() else 1)
