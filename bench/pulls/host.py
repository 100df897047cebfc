"""What the sides without arrays have in common: bytes by size, in parts over streams."""

from __future__ import annotations

import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bench.pulls.content import aligned, content, shares

__all__ = ["REQUEST", "BytesServer", "PartsPuller"]

REQUEST = struct.Struct("!QQQ")
"""How many bytes there are, and where the part begins and ends."""


class BytesServer:
    """Keeps the bytes of the last size; every number is the same ones."""

    def __init__(self) -> None:
        self.data = content(0)

    def offer(self, size: int, first: int, count: int) -> None:
        """Have bytes of a size."""
        if len(self.data) != size:
            self.data = content(size)


class PartsPuller:
    """Pulls a part over each stream at the same time.

    Parameters
    ----------
    fetches
        One function for each stream: given a request and the memory of its part, fills it.
    """

    def __init__(self, fetches: list[Callable[[bytes, np.ndarray[Any, Any]], None]]) -> None:
        self._fetches = fetches
        self._threads = ThreadPoolExecutor(len(fetches))

    def pull(self, number: int, size: int) -> np.ndarray[Any, Any]:
        """Return bytes of a size."""
        whole = aligned(size)
        waits = [
            self._threads.submit(fetch, REQUEST.pack(size, begin, end), whole[begin:end])
            for fetch, (begin, end) in zip(
                self._fetches, shares(size, len(self._fetches)), strict=True
            )
        ]
        for wait in waits:
            wait.result()
        return whole

    def last(self, found: np.ndarray[Any, Any]) -> int:
        """Return the last byte."""
        return int(found[-1])
