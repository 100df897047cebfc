"""JAX's transfer server."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.experimental import transfer
from jax.sharding import SingleDeviceSharding

from bench.pull_process import HOST
from bench.pulls.content import content


def version() -> str:
    """Return JAX's version."""
    return jax.__version__


class Server:
    """Offers arrays; each of ``streams`` addresses gets a connection."""

    def __init__(self, streams: int) -> None:
        client = jax.devices()[0].client
        addresses = [f"{HOST}:0"] * streams
        self._server = transfer.start_transfer_server(client, f"{HOST}:0", addresses)
        self.address = self._server.address()
        self._arrays: dict[int, Any] = {}

    def offer(self, size: int, first: int, count: int) -> None:
        """Offer an array under each number."""
        if size not in self._arrays:
            self._arrays = {size: jax.device_put(content(size), jax.devices()[0])}
        for number in range(first, first + count):
            self._server.await_pull(number, [self._arrays[size]])


class Puller(Server):
    """Pulls arrays onto a device."""

    def __init__(self, address: str, streams: int) -> None:
        super().__init__(streams)
        self._connection = self._server.connect(address)

    def pull(self, number: int, size: int) -> Any:
        """Return the array under a number, when it is there."""
        sharding = SingleDeviceSharding(jax.devices()[0])
        wanted = jax.ShapeDtypeStruct((size,), np.uint8, sharding=sharding)
        return self._connection.pull(number, [wanted])[0].block_until_ready()

    def last(self, found: Any) -> int:
        """Return the last byte."""
        return int(np.asarray(found)[-1])
