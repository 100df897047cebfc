"""A process's end of direct connections: each thread that waits for an answer has its own."""

from __future__ import annotations

import socket
import threading
from typing import Any

from devrt.distributed.direct.frames import HEADER, NUMBERS, error_of, frame, hello
from devrt.distributed.protocol.messages import message

__all__ = ["DirectClient", "NotSentError"]

_CONNECT_SECONDS = 10.0


class NotSentError(ConnectionError):
    """There was no connection to send a request on: it can be made again."""


class DirectClient:
    """Connections to a service's direct port, opened as they are needed and used again.

    Parameters
    ----------
    host, port
        Where the service listens.
    token
        What the service wants to see first.
    """

    def __init__(self, host: str, port: int, token: str) -> None:
        self._address = (host, port)
        self.port = port
        self._hello = hello(token.encode())
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._busy: set[socket.socket] = set()
        self._is_closed = False

    def call(self, method: str, request: Any, seconds: float | None) -> Any:
        """Make a call and wait for its response.

        Raises
        ------
        TimeoutError
            There was none within so many seconds.
        ConnectionError
            The connection ended; `NotSentError` where it was none when the call began.
        DevrtError
            The response is an error.
        """
        connection = self._take()
        try:
            connection.settimeout(seconds)
            connection.sendall(frame(NUMBERS[method], request.SerializeToString()))
            code, payload = _response(connection)
        except BaseException:
            self._drop(connection)  # a late response must not be the next call's
            raise
        self._give_back(connection)
        if code:
            raise error_of(code, payload)
        return message(f"{method}Response").FromString(payload)

    def interrupt(self) -> None:
        """End every call that waits: it raises `ConnectionError`."""
        with self._lock:
            for connection in self._busy:
                _end(connection)

    def close(self) -> None:
        """End every call and every connection. Idempotent."""
        self.interrupt()
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _take(self) -> socket.socket:
        made = self._idle_one() or self._opened()
        with self._lock:
            if not self._is_closed:
                self._busy.add(made)
                return made
        made.close()
        raise NotSentError("the connection was closed")

    def _idle_one(self) -> socket.socket | None:
        """Return a connection that is open; close those that the service has closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                found = self._idle.pop()
            if _is_open(found):
                return found
            found.close()

    def _opened(self) -> socket.socket:
        try:
            made = socket.create_connection(self._address, _CONNECT_SECONDS)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.sendall(self._hello)
        except TimeoutError:
            raise
        except OSError as error:
            raise NotSentError(str(error)) from error
        return made

    def _give_back(self, connection: socket.socket) -> None:
        with self._lock:
            self._busy.discard(connection)
            if not self._is_closed:
                self._idle.append(connection)
                return
        connection.close()

    def _drop(self, connection: socket.socket) -> None:
        with self._lock:
            self._busy.discard(connection)
        connection.close()


def _is_open(connection: socket.socket) -> bool:
    """Return whether nothing has come on a connection that nothing was requested on."""
    try:
        connection.settimeout(0)
        connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _response(connection: socket.socket) -> tuple[int, bytes]:
    data = connection.recv(1 << 16)
    while len(data) < HEADER.size:
        data += _more(connection, data)
    size, code = HEADER.unpack_from(data)
    missing = HEADER.size + size - len(data)
    if missing <= 0:
        return code, data[HEADER.size :]
    whole = bytearray(HEADER.size + size)
    whole[: len(data)] = data
    view = memoryview(whole)[len(data) :]
    while view:
        count = connection.recv_into(view)
        if not count:
            raise ConnectionError("the service closed the connection")
        view = view[count:]
    return code, bytes(whole[HEADER.size :])


def _more(connection: socket.socket, data: bytes) -> bytes:
    more = connection.recv(1 << 16) if data else b""
    if not more:
        raise ConnectionError("the service closed the connection")
    return more


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:  # the service was first
        return
