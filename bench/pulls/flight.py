"""Arrow Flight: one record batch, copied into the memory that is to have it."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
import pyarrow
from pyarrow import flight

from bench.pull_process import HOST
from bench.pulls.host import REQUEST, BytesServer, PartsPuller


def version() -> str:
    """Return pyarrow's version."""
    return str(pyarrow.__version__)


class Server(BytesServer):
    """Streams the bytes that a ticket names."""

    def __init__(self, streams: int) -> None:
        super().__init__()
        outer = self

        class Service(flight.FlightServerBase):
            def do_get(self, context: Any, ticket: Any) -> Any:
                _, begin, end = REQUEST.unpack(ticket.ticket)
                data = pyarrow.py_buffer(outer.data[begin:end])
                array = pyarrow.Array.from_buffers(pyarrow.uint8(), end - begin, [None, data])
                return flight.RecordBatchStream(pyarrow.Table.from_arrays([array], ["x"]))

        self._service = Service(f"grpc://{HOST}:0")
        threading.Thread(target=self._service.serve, daemon=True).start()
        self.address = f"{HOST}:{self._service.port}"


class Puller(PartsPuller):
    """Reads streams, each over a connection of its own."""

    def __init__(self, address: str, streams: int) -> None:
        own = [("grpc.use_local_subchannel_pool", 1)]
        where = f"grpc://{address}"
        clients = [flight.FlightClient(where, generic_options=own) for _ in range(streams)]
        super().__init__([partial(_fetch, client) for client in clients])


def _fetch(client: Any, request: bytes, part: np.ndarray[Any, Any]) -> None:
    at = 0
    for chunk in client.do_get(flight.Ticket(request)):
        found = np.frombuffer(chunk.data.column(0).buffers()[1], np.uint8)
        part[at : at + len(found)] = found
        at += len(found)
