"""Connections of HTTP/2, which are passed on to gRPC behind the service's port."""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["Relay"]

_numbers = itertools.count()


class _Half(asyncio.Protocol):
    """One end of two: what comes goes to the other, as fast as that takes it."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.other: _Half | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            self.other.transport.write(data)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None:
            self.other.transport.close()  # what is written goes out first


class Relay(_Half):
    """The client's end; nothing is read from it until gRPC's is connected.

    Parameters
    ----------
    transport
        The client's.
    path
        The socket at which gRPC listens.
    data
        What the client has sent.
    on_end
        Called when the client's connection has ended.

    Attributes
    ----------
    name
        By which gRPC knows the connection; empty where the system has no such names.
    """

    def __init__(
        self,
        transport: Any,
        path: str,
        data: bytes,
        on_end: Callable[[Exception | None], None],
    ) -> None:
        super().__init__()
        self.transport = transport
        self._on_end = on_end
        self.name = f"devrt-{os.getpid()}-{next(_numbers)}" if sys.platform == "linux" else ""
        transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._connect(path, data))

    def connection_lost(self, exc: Exception | None) -> None:
        """End gRPC's end, too."""
        super().connection_lost(exc)
        self._task.cancel()
        self._on_end(exc)

    async def _connect(self, path: str, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        made = socket.socket(socket.AF_UNIX)
        try:
            made.setblocking(False)
            if self.name:
                made.bind(f"\0{self.name}")
            await loop.sock_connect(made, path)
            _, far = await loop.create_unix_connection(_Half, sock=made)
        except OSError:  # no more files, or the service ends
            made.close()
            self.transport.close()
            return
        far.transport.write(data)
        far.other, self.other = self, far
        self.transport.resume_reading()
