"""Real data over a mesh of devices: discover, shard, move, classify, and check it bit for bit.

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
from devrt.contract.installation import how_to_install
from devrt.errors import BackendInitializationError, InvalidArgumentError, UnimplementedError
from devrt.programs import ArrayProgram, load_program
from devrt.sharding import render_sharding

__all__ = ["HELD_OUT", "classify", "expected", "load", "run"]

NumPyArray = np.ndarray[Any, Any]

HELD_OUT = 800
"""The last images of the data set, which the classifier was not trained on."""

_DATA = Path(__file__).with_name("data")
_HOST = "cpu"
_PARTS = 8  # the devices that the classifier divides its images over
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
        checks += _classify(array[-HELD_OUT:], labels[-HELD_OUT:], devices)
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


def _classify(
    images: NumPyArray, labels: NumPyArray, devices: Sequence[devrt.Device]
) -> list[bool]:
    print(f"\nA compiled program: a classifier that JAX exported, over {_PARTS} devices")
    if len(devices) < _PARTS:
        print(f"  left out: it needs {_PARTS} devices, and there are {len(devices)}")
        return []
    try:
        program, found = classify(images, devices[:_PARTS])
    except UnimplementedError as error:  # no compiler: all else works without
        print(f"  left out: {error}")
        return []
    print(f"  images lie as {program.in_shardings[-1]}")
    right = float(np.mean(found == labels))
    print(f"  {len(found)} digits that it was not trained on: {right:.1%} right")
    return [_is_equal("labels, as NumPy finds them", found, expected(images))]


def classify(
    images: NumPyArray, devices: Sequence[devrt.Device]
) -> tuple[ArrayProgram, NumPyArray]:
    """Compile the classifier for eight devices; return it, and a label for each image.

    Raises
    ------
    UnimplementedError
        If the platform has no compiler; the message says what to install.
    """
    program = load_program((_DATA / "digits.mlirbc").read_bytes(), devices=devices)
    labels, _ = program(*_weights(), images)
    return program, np.asarray(labels)


def expected(images: NumPyArray) -> NumPyArray:
    """Return the labels that NumPy finds with the same weights."""
    w1, b1, w2, b2 = _weights()
    hidden = np.maximum(images / np.float32(16) @ w1 + b1, 0)
    labels: NumPyArray = np.argmax(hidden @ w2 + b2, axis=1).astype(np.int32)
    return labels


def _weights() -> list[NumPyArray]:
    with np.load(_DATA / "digits.npz") as stored:
        return [stored[name] for name in ("w1", "b1", "w2", "b2")]


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
