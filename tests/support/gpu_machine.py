"""What the tests of real GPUs take, and less of it where simulated devices stand in for them."""

import os
from pathlib import Path

import pytest

from support import shared_library

IS_SIMULATED = bool(os.environ.get("TEST_GPU_SIMULATED"))
"""Whether the devices are simulated: the tests' own mistakes are looked for, not a GPU's."""

COUNT = 1 << (19 if IS_SIMULATED else 22)
"""Floats of an array, more than the arena in front of the driver's pool gives."""

ROUNDS = 4 if IS_SIMULATED else 20
"""How often work is started before what it reads is there."""

_SOURCES = {"cuda": "cuda", "rocm": "hip"}
_IMAGES = {"cuda": "cubin", "rocm": "hsaco"}


def library(name):
    """Return a library that uses GPUs, or skip the test: it is absent, or the GPU is simulated."""
    if IS_SIMULATED:
        pytest.skip(f"a simulated device is none of {name}'s")
    return pytest.importorskip(name)


def kernels(client, source, simulated, folder):
    """Compile C++ for the client's devices; simulated ones load C that is written for them."""
    if not IS_SIMULATED:
        return client.compile(source, format=_SOURCES[client.platform])
    import devrt

    headers = Path(devrt.__file__).parent / "native" / "src"
    image = shared_library(folder / "kernels.so", simulated, f"-I{headers}").read_bytes()
    return client.compile(image, format=_IMAGES[client.platform])
