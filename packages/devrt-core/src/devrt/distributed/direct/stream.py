"""One direct connection: frames sent, and frames read however they are cut up."""

from __future__ import annotations

import socket
import time
from typing import Any

from devrt.distributed.direct.frames import (
    HEADER,
    HELLO,
    error_of,
    frame,
    is_foreign,
    read_hello_of_service,
)
from devrt.distributed.faults import refused
from devrt.errors import StatusCode

__all__ = ["ForeignError", "NotSentError", "SilentError", "Stream"]

_CHUNK = 1 << 16
_PIECE = 1 << 20  # memory for what comes next, where no more has come yet
_LARGEST = (2 << 30) - 1  # bytes that a message of protobuf may have
_LARGEST_ERROR = 1 << 20


class NotSentError(ConnectionError):
    """There was no connection to send a request on: it can be made again."""


class ForeignError(ConnectionError):
    """Another program than devrt's service answers at the address, or none."""


class SilentError(TimeoutError):
    """What listens at the address did not say in time that it is a coordination service."""


class Stream:
    """A connection to a service, which begins with a hello.

    Parameters
    ----------
    address
        The host and the port.
    hello
        The first frame.
    seconds
        How long connecting may take.
    """

    def __init__(self, address: tuple[str, int], hello: bytes, seconds: float) -> None:
        try:
            self._end: float | None = time.monotonic() + seconds
            self._socket = socket.create_connection((_plain(address[0]), address[1]), seconds)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.sendall(hello)
        except TimeoutError:
            raise
        except OSError as error:
            raise NotSentError(str(error)) from error
        self._bytes = b""
        self.resumes: bool | None = None  # None until the first response
        self.message_bytes = _LARGEST

    def send(self, number: int, payload: bytes, seconds: float | None) -> None:
        """Send a request; this and what is received next may take so long, all together."""
        self._end = None if seconds is None else time.monotonic() + seconds
        self._socket.settimeout(None if seconds is None else max(seconds, 0.001))
        self._socket.sendall(frame(number, payload))

    def receive(self) -> tuple[int, bytes]:
        """Return the status code and the message of the next response."""
        if self.resumes is None:
            self._greet()
        return self._frame(*self._header())

    def response_within(self, seconds: float) -> tuple[int, bytes] | None:
        """Return a response that comes within some time; None if none begins to."""
        self._end = time.monotonic() + seconds
        try:
            if not self._bytes:
                self._bytes = self._more()
        except TimeoutError:
            return None
        self._end = time.monotonic() + seconds  # for the rest of it
        return self.receive()

    def is_open(self) -> bool:
        """Return whether nothing has come on a connection that nothing was requested on."""
        try:
            self._socket.settimeout(0)
            self._socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return not self._bytes
        except OSError:
            return False
        return False

    def interrupt(self) -> None:
        """End what waits for a response: it raises `ConnectionError`."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:  # the service was first
            return

    def close(self) -> None:
        """Close it. Idempotent."""
        self._socket.close()

    def _greet(self) -> None:
        """Read the service's first frame; an error may be in its place."""
        try:
            size, number = self._header()
        except TimeoutError as error:
            words = "something listens there, and does not answer as a coordination service does"
            raise SilentError(words) from error
        except OSError as error:
            raise ForeignError(str(error)) from error
        if is_foreign(size, number):
            raise ForeignError("another program than devrt's service answers")
        payload = self._frame(size, number)[1]
        if number != HELLO:
            raise error_of(number, payload)
        self.resumes, self.message_bytes = read_hello_of_service(payload)

    def _header(self) -> tuple[int, int]:
        while len(self._bytes) < HEADER.size:
            self._bytes += self._more()
        size, number = HEADER.unpack_from(self._bytes)
        return size, number

    def _frame(self, size: int, number: int) -> tuple[int, bytes]:
        """Return the frame whose header was read; keep what follows it."""
        if size > (_LARGEST_ERROR if number else _LARGEST):
            words = f"the coordination service announced an answer of {size} bytes: it is none."
            raise refused(StatusCode.DATA_LOSS, words)
        data, end = self._bytes, HEADER.size + size
        if len(data) < end:
            whole = bytearray(data)
            while (have := len(whole)) < end:  # what is only announced takes up nothing
                whole += bytes(min(end - have, max(have, _PIECE)))
                self._fill(memoryview(whole)[have:])
            data = bytes(whole)
        self._bytes = data[end:]
        return number, data[HEADER.size : end]

    def _fill(self, view: memoryview) -> None:
        while view:
            self._limit()
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionError("the service closed the connection")
            view = view[count:]

    def _limit(self) -> None:
        """Give the next bytes what is left of the time of all."""
        if self._end is not None:
            left = self._end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the deadline passed")
            self._socket.settimeout(left)

    def _more(self) -> bytes:
        self._limit()
        more = self._socket.recv(_CHUNK)
        if not more:
            raise ConnectionError("the service closed the connection")
        return more


def _plain(host: str) -> Any:
    """Return a name that is ASCII as bytes, which the type stubs do not know of.

    For a name as text Python imports what encodes international ones, which takes a process longer
    than all else that it does to join a job.
    """
    return host.encode() if host.isascii() else host
