"""The execution stream of a thread: work with one id is ordered, with different ids may overlap."""

from __future__ import annotations

import contextlib
import operator
import threading
from collections.abc import Iterator

from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "StreamHandle",
    "current_stream",
    "execution_stream_id",
    "get_execution_stream_id",
    "set_execution_stream_id",
]


class StreamHandle(int):
    """A stream of a device, as its driver numbers it.

    It is valid as long as its device's client is open. Libraries that take objects with
    ``__cuda_stream__`` take it as it is, others its number.
    """

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, int(self)


class _CurrentStream(threading.local):
    stream_id = 0


current_stream = _CurrentStream()
"""What a native backend reads: its ``stream_id`` is that of the calling thread."""


def get_execution_stream_id() -> int:
    """Return the calling thread's execution stream id; 0 until it is set."""
    return current_stream.stream_id


def set_execution_stream_id(new_id: int) -> None:
    """Set the calling thread's execution stream id.

    Asynchronous work that a thread starts on a device runs in the order in which it was started
    among all work of the same id, whichever thread started it. Work of different ids may overlap,
    except where one needs the other's result. What is done before a call returns (small copies,
    everything on a synchronous client) has nothing to wait for.

    Raises
    ------
    InvalidArgumentError
        If ``new_id`` does not fit a signed 64-bit integer.
    InvalidTypeError
        If it is no int.
    """
    try:
        number = operator.index(new_id)
    except TypeError:
        raise InvalidTypeError(
            f"an execution stream id must be an int, not of type {type(new_id).__name__}.",
            operation="set_execution_stream_id",
        ) from None
    if not -(2**63) <= number < 2**63:
        raise InvalidArgumentError(
            f"an execution stream id must fit 64 bits, and is {number}.",
            operation="set_execution_stream_id",
        )
    current_stream.stream_id = number


@contextlib.contextmanager
def execution_stream_id(new_id: int) -> Iterator[None]:
    """Give the calling thread another execution stream id for a block of code.

    The id it had is back afterwards, however the block ends.

    Raises
    ------
    InvalidArgumentError, InvalidTypeError
        As `set_execution_stream_id`.
    """
    saved = get_execution_stream_id()
    set_execution_stream_id(new_id)
    try:
        yield
    finally:
        current_stream.stream_id = saved
