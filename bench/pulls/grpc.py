"""gRPC streams: messages of 4 MiB, copied into the memory that is to have them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import grpc
import numpy as np

from bench.pull_process import HOST
from bench.pulls.host import REQUEST, BytesServer, PartsPuller

_PIECE = 4 << 20
_ANY_SIZE = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def version() -> str:
    """Return gRPC's version."""
    return str(grpc.__version__)


class Server(BytesServer):
    """Streams the bytes that a request names."""

    def __init__(self, streams: int) -> None:
        super().__init__()
        handler = grpc.unary_stream_rpc_method_handler(self._stream)
        self._server = grpc.server(ThreadPoolExecutor(8), options=_ANY_SIZE)
        service = grpc.method_handlers_generic_handler("bench", {"Pull": handler})
        self._server.add_generic_rpc_handlers((service,))
        self.address = f"{HOST}:{self._server.add_insecure_port(f'{HOST}:0')}"
        self._server.start()

    def _stream(self, request: bytes, context: Any) -> Iterator[bytes]:
        _, begin, end = REQUEST.unpack(request)
        for at in range(begin, end, _PIECE):
            yield self.data[at : min(end, at + _PIECE)].tobytes()


class Puller(PartsPuller):
    """Reads streams, each over a connection of its own."""

    def __init__(self, address: str, streams: int) -> None:
        options = [*_ANY_SIZE, ("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.insecure_channel(address, options=options) for _ in range(streams)]
        super().__init__([partial(_fetch, one.unary_stream("/bench/Pull")) for one in channels])


def _fetch(call: Any, request: bytes, part: np.ndarray[Any, Any]) -> None:
    at = 0
    for message in call(request):
        part[at : at + len(message)] = np.frombuffer(message, np.uint8)
        at += len(message)
