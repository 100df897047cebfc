"""What goes over a connection: a number, a record as JSON, and bytes of arrays.

A request's number is an `Op`; a response's is a status code, and with any but OK the record has the
error's words. Lengths come first, so that a reader can refuse what is too long before it reads it.
"""

from __future__ import annotations

import contextlib
import enum
import json
import select
import socket
import struct
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

from devrt.distributed.faults import from_wire, to_wire
from devrt.errors import DevrtError

__all__ = ["MOST_REGIONS", "PROTOCOL", "FrameError", "Op", "Stream", "error_record", "raise_error"]

PROTOCOL = 1
"""Which both sides must have; a change of what follows makes it another."""
MOST_REGIONS = 1024
"""How many parts of blocks one request may ask for."""
_HEADER = struct.Struct("!BIQ")
_AT_ONCE = 4 << 20  # what one call sends: a deadline is looked at between two


class Op(enum.IntEnum):
    """What a request asks for."""

    HELLO = 1
    PULL = 2
    READ = 3
    END = 4


class FrameError(Exception):
    """The other side does not keep to the protocol."""


class Stream:
    """A connection with deadlines.

    Parameters
    ----------
    connection
        A connected socket, encrypted or not; the stream closes it.
    stall
        Seconds without any progress after which the other side counts as stopped.
    """

    def __init__(self, connection: socket.socket, stall: float) -> None:
        self._socket = connection
        self._stall = stall
        self.deadline: float | None = None
        """The time of the clock `monotonic` by which all must be done; None for no such time."""
        self.is_patient = False
        """Whether the other side may be silent for as long as it is connected."""

    def send(self, number: int, record: Mapping[str, Any], data: Iterable[memoryview] = ()) -> None:
        """Send a message; of ``data`` no copy is made."""
        parts = list(data)
        words = json.dumps(record).encode()
        head = _HEADER.pack(number, len(words), sum(part.nbytes for part in parts)) + words
        for part in (memoryview(head), *parts):
            self._send(part)

    def receive(self, limit: int) -> tuple[int, dict[str, Any], int]:
        """Return a message's number and record, and how many bytes of data follow.

        Raises
        ------
        FrameError
            The record is longer than ``limit``, or is none.
        """
        head = bytearray(_HEADER.size)
        self.receive_into(memoryview(head))
        number, size, count = _HEADER.unpack(head)
        if size > limit:
            raise FrameError(f"a record of {size} bytes, of which {limit} are allowed")
        words = bytearray(size)
        self.receive_into(memoryview(words))
        return number, _record(words), count

    def receive_into(self, view: memoryview) -> None:
        """Fill memory with what comes next."""
        while view:
            self._socket.settimeout(self._seconds())
            count = self._socket.recv_into(view)
            if not count:
                raise ConnectionError("the other side closed the connection")
            view = view[count:]

    def is_fresh(self) -> bool:
        """Return whether an idle connection can be used: the other side has not ended it."""
        try:
            poll = select.poll()  # select() takes no descriptor above 1023
            poll.register(self._socket, select.POLLIN)
            return not poll.poll(0)
        except (OSError, ValueError):
            return False

    def close(self) -> None:
        """End the connection, and with it every call that waits in it. Idempotent."""
        with contextlib.suppress(OSError):  # the other side may be first
            # Not `SSLSocket.shutdown`, which drops its state under a thread that reads.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def release(self) -> None:
        """Give the descriptor back, once no thread uses the stream."""
        self._socket.close()

    def _send(self, view: memoryview) -> None:
        while view:
            self._socket.settimeout(self._seconds())
            view = view[self._socket.send(view[:_AT_ONCE]) :]

    def _seconds(self) -> float | None:
        if self.is_patient:
            return None
        if self.deadline is None:
            return self._stall
        left = self.deadline - monotonic()
        if left <= 0:
            raise TimeoutError("the deadline passed")
        return min(left, self._stall)


def error_record(error: DevrtError) -> dict[str, str]:
    """Return the record of a response that is an error; of a backend's, its words alone."""
    try:
        details = to_wire(error)
    except TypeError:  # it speaks of objects of this process
        details = b""
    return {"message": str(error), "details": details.decode()}


def raise_error(code: int, record: Mapping[str, Any]) -> None:
    """Raise the error that a response has."""
    message, details = str(record.get("message", "")), str(record.get("details", ""))
    try:
        error = from_wire(code, message, details.encode(errors="replace"))
    except (AttributeError, TypeError, ValueError):  # details that no devrt has written
        error = from_wire(code, message, None)
    raise error


def _record(words: bytearray) -> dict[str, Any]:
    try:
        record = json.loads(words)
    except (ValueError, RecursionError):  # deep nesting is no ValueError
        raise FrameError("a record that is no JSON") from None
    if not isinstance(record, dict):
        raise FrameError("a record that has no fields")
    return record
