"""The arrays that every side is given, and the shardings that both libraries write alike."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from bench.case import Factory

__all__ = ["BYTES", "MIB", "both_sides", "sharding", "source"]

MIB = 1 << 20

#: The points of every sweep over bytes; the last one is for --full.
BYTES = (8, 64, 1 << 10, 16 << 10, 256 << 10, 4 * MIB, 64 * MIB, 1024 * MIB)


Cases = Callable[[], dict[str, Factory]]


def both_sides(cases: Callable[[Any], dict[str, Factory]]) -> tuple[Cases, Cases]:
    """Return what makes devrt's cases and JAX's: the library that they are given differs."""
    return tuple(lambda name=name: cases(import_module(name)) for name in ("devrt", "jax"))


def source(nbytes: int, *, is_aligned: bool = False) -> np.ndarray:
    """Return a 1-d float32 array of `nbytes` bytes, on a 64-byte boundary or never on one.

    A source that begins 16 bytes past a boundary cannot be aliased by a runtime that wants 64,
    so copying is measured where copying is meant.
    """
    raw = np.empty(nbytes + 128, np.uint8)
    start = -raw.ctypes.data % 64 + (0 if is_aligned else 16)
    made = raw[start : start + nbytes].view(np.float32)
    # Written, so that every page exists before the clock starts.
    made[:] = np.arange(made.size) % 251
    return made


def sharding(api: Any, count: int) -> Any:
    """Return the sharding of a 1-d array over the first `count` devices."""
    mesh = api.sharding.Mesh(np.array(api.devices()[:count]), ("x",))
    return api.sharding.NamedSharding(mesh, api.sharding.PartitionSpec("x"))
