"""devrt's transfer server."""

from __future__ import annotations

from typing import Any

import numpy as np

import devrt
from bench.pull_process import HOST
from bench.pulls.content import content
from devrt.experimental import transfer


def version() -> str:
    """Return devrt's version."""
    return devrt.__version__


class Server:
    """Offers arrays; each of ``streams`` addresses gets a connection."""

    def __init__(self, streams: int) -> None:
        self._client = devrt.devices("cpu")[0].client
        addresses = [f"{HOST}:0"] * streams
        self._server = transfer.start_transfer_server(self._client, f"{HOST}:0", addresses)
        self.address = self._server.address()
        self._arrays: dict[int, Any] = {}

    def offer(self, size: int, first: int, count: int) -> None:
        """Offer an array under each number."""
        if size not in self._arrays:
            self._arrays = {size: devrt.device_put(content(size), self._client.devices()[0])}
        for number in range(first, first + count):
            self._server.await_pull(number, self._arrays[size])


class Puller:
    """Pulls arrays onto a device; the server says over how many connections."""

    def __init__(self, address: str, streams: int) -> None:
        client = devrt.devices("cpu")[0].client
        self._server = transfer.start_transfer_server(client, f"{HOST}:0")
        self._connection = self._server.connect(address)

    def pull(self, number: int, size: int) -> Any:
        """Return the array under a number."""
        return self._connection.pull(number, devrt.ShapeDtypeStruct((size,), np.uint8))

    def last(self, found: Any) -> int:
        """Return the last byte."""
        return int(np.asarray(found)[-1])
