"""The bytes that are pulled, and how they are divided over streams."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["aligned", "content", "shares"]


def content(size: int) -> np.ndarray[Any, Any]:
    """Return bytes of which the last tells whether all came."""
    return np.resize(np.arange(251, dtype=np.uint8), size)


def aligned(size: int) -> np.ndarray[Any, Any]:
    """Return memory as devices of the host need it."""
    raw = np.empty(size + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    return raw[begin : begin + size]


def shares(size: int, streams: int) -> list[tuple[int, int]]:
    """Return where the part of each stream begins and ends."""
    ends = [size * n // streams for n in range(streams + 1)]
    return list(pairwise(ends))
