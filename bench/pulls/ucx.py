"""UCX through ucxx, over the transport that it takes on one machine; received in place."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import ucxx

from bench.pull_process import HOST
from bench.pulls.content import aligned, shares
from bench.pulls.host import BytesServer


def version() -> str:
    """Return ucxx's version."""
    return str(ucxx.__version__)


class Server(BytesServer):
    """Sends the bytes that a request names; each connection is an endpoint."""

    def __init__(self, streams: int) -> None:
        super().__init__()
        port: Future[int] = Future()
        threading.Thread(target=lambda: asyncio.run(self._run(port)), daemon=True).start()
        self.address = f"{HOST}:{port.result(60)}"

    async def _run(self, port: Future[int]) -> None:
        async def serve(endpoint: Any) -> None:
            request = np.empty(2, np.uint64)
            while True:
                await endpoint.recv(request)
                await endpoint.send(self.data[int(request[0]) : int(request[1])])

        self._listener = ucxx.create_listener(serve, 0)
        port.set_result(self._listener.port)
        await asyncio.Event().wait()


class Puller:
    """Receives over some endpoints at the same time."""

    def __init__(self, address: str, streams: int) -> None:
        host, _, port = address.rpartition(":")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._endpoints = self._wait(self._connected(host, int(port), streams))

    def pull(self, number: int, size: int) -> np.ndarray[Any, Any]:
        """Return bytes of a size."""
        return self._wait(self._pulled(size))

    def last(self, found: np.ndarray[Any, Any]) -> int:
        """Return the last byte."""
        return int(found[-1])

    def _wait(self, what: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(120)

    async def _connected(self, host: str, port: int, streams: int) -> list[Any]:
        return [await ucxx.create_endpoint(host, port) for _ in range(streams)]

    async def _pulled(self, size: int) -> np.ndarray[Any, Any]:
        whole = aligned(size)
        parts = zip(self._endpoints, shares(size, len(self._endpoints)), strict=True)
        await asyncio.gather(*[self._part(one, whole, *share) for one, share in parts])
        return whole

    async def _part(self, endpoint: Any, whole: Any, begin: int, end: int) -> None:
        await endpoint.send(np.array([begin, end], np.uint64))
        await endpoint.recv(whole[begin:end])
