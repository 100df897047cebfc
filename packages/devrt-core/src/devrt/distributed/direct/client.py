"""A process's end of direct connections: each thread that waits for an answer has its own."""

from __future__ import annotations

import threading
import time
from typing import Any

from devrt.distributed import rules
from devrt.distributed.direct.frames import NUMBERS, error_of, hello
from devrt.distributed.direct.stream import Stream
from devrt.distributed.protocol.messages import message

__all__ = ["DirectClient"]

_CONNECT_SECONDS = 10.0


class DirectClient:
    """Connections to a service, opened as they are needed and used again.

    Parameters
    ----------
    host, port
        Where the service listens.
    token
        What the service wants to see first.

    Attributes
    ----------
    resumes : bool or None
        Whether another service may carry on after this one; None until the service has answered.
    message_bytes : int or None
        The longest message that it takes; None until then.
    """

    def __init__(self, host: str, port: int, token: str) -> None:
        self._address = (host, port)
        self._hello = hello(token.encode())
        self._lock = threading.Lock()
        self._idle: list[Stream] = []
        self._busy: set[Stream] = set()
        self._is_closed = False
        self.resumes: bool | None = None
        self.message_bytes: int | None = None

    def call(self, method: str, request: Any, seconds: float | None) -> Any:
        """Make a call and wait for its response.

        Raises
        ------
        TimeoutError
            There was none within so many seconds.
        ConnectionError
            The connection ended; `NotSentError` where it was none when the call began, and
            `ForeignError` where the service is not devrt's.
        DevrtError
            The response is an error.
        """
        end = None if seconds is None else time.monotonic() + seconds
        data = request.SerializeToString()
        rules.check_length(len(data), self.message_bytes)
        stream = self.taken(seconds)
        try:
            stream.send(NUMBERS[method], data, None if end is None else end - time.monotonic())
            code, payload = stream.receive()
        except BaseException:
            self.drop(stream)  # a late response must not be the next call's
            raise
        self.resumes, self.message_bytes = stream.resumes, stream.message_bytes
        self._give_back(stream)
        if code:
            raise error_of(code, payload)
        return message(f"{method}Response").FromString(payload)

    def interrupt(self) -> None:
        """End every call that waits: it raises `ConnectionError`."""
        with self._lock:
            for stream in self._busy:
                stream.interrupt()

    def close(self) -> None:
        """End every call and every connection. Idempotent."""
        with self._lock:
            self._is_closed = True  # first: a call that begins now must not wait
            idle, self._idle = self._idle, []
        self.interrupt()
        for stream in idle:
            stream.close()

    def taken(self, seconds: float | None) -> Stream:
        """Return a connection for a caller alone; connecting may take so long."""
        found = self._idle_one() or self._opened(seconds)
        with self._lock:
            if not self._is_closed:
                self._busy.add(found)
                return found
        found.close()
        raise ConnectionError("the connection was closed")

    def drop(self, stream: Stream) -> None:
        """Close a connection that was taken."""
        with self._lock:
            self._busy.discard(stream)
        stream.close()

    def _idle_one(self) -> Stream | None:
        """Return a connection that is open; close those that the service has closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                found = self._idle.pop()
            if found.is_open():
                return found
            found.close()

    def _opened(self, seconds: float | None) -> Stream:
        allowed = _CONNECT_SECONDS if seconds is None else min(seconds, _CONNECT_SECONDS)
        return Stream(self._address, self._hello, max(allowed, 0.001))

    def _give_back(self, stream: Stream) -> None:
        with self._lock:
            self._busy.discard(stream)
            if not self._is_closed:
                self._idle.append(stream)
                return
        stream.close()
