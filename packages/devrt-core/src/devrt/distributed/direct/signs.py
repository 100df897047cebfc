"""Signs of life of one process, and news of lost ones, on one direct connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from devrt.distributed.direct.client import DirectClient
from devrt.distributed.direct.frames import NUMBERS, error_of
from devrt.distributed.direct.stream import Stream
from devrt.distributed.faults import refused
from devrt.distributed.link import BEATS
from devrt.errors import DevrtError, PeerLostError, StatusCode

__all__ = ["Signs"]

_POLL, _BEAT = NUMBERS["PollForError"], NUMBERS["Heartbeat"]
_RETRY_SECONDS = 1.0  # a service that is started again is found soon, whatever the heartbeat
_ENDING = {StatusCode.UNAVAILABLE, StatusCode.CANCELLED}  # of a service that ends: it may come back


class Signs:
    """What a thread of its own does until the link ends, or something is lost.

    Parameters
    ----------
    client
        Has the connections.
    poll, beat
        The requests: one waits until a process is lost, the other is made again and again.
    heartbeat
        Seconds without an answer after which the service counts as lost.
    ended
        Set when the link ends.
    lose
        Called with the error when a process or the service is lost.
    """

    def __init__(
        self,
        client: DirectClient,
        poll: Any,
        beat: Any,
        heartbeat: float,
        ended: threading.Event,
        lose: Callable[[DevrtError], None],
    ) -> None:
        self._client = client
        self._poll = poll.SerializeToString()
        self._beat = beat.SerializeToString()
        self._heartbeat = heartbeat
        self._period = heartbeat / BEATS
        self._ended = ended
        self._lose = lose

    def run(self) -> None:
        """Give signs of life until the end."""
        heard, failures = time.monotonic(), 0
        stream: Stream | None = None
        while not self._ended.is_set():
            try:
                if stream is None:
                    stream = self._polling()
                if not failures:  # else the service has to answer first
                    self._listen(stream)
                self._signal(stream)
                heard, failures = time.monotonic(), 0
                continue
            except DevrtError as error:
                if isinstance(error, PeerLostError) or error.code not in _ENDING:
                    self._lose(error)
                    self._beat_on()
                    break
                cause: Exception = error
            except OSError as error:
                cause = error
            self._drop(stream)
            stream, failures = None, failures + 1
            if failures > 1 and time.monotonic() - heard >= self._heartbeat:
                words = f"the coordination service gave no sign for {self._heartbeat:g} s: {cause}."
                self._lose(refused(StatusCode.UNAVAILABLE, words))
                break
            self._ended.wait(min(self._period, _RETRY_SECONDS))
        self._drop(stream)

    def _beat_on(self) -> None:
        """Give signs of life where another process is lost: this one is not."""
        stream: Stream | None = None
        while not self._ended.wait(self._period):
            try:
                stream = stream or self._client.taken(self._period)
                self._signal(stream)
            except DevrtError:  # this process is not one of the job, or the service ends
                break
            except OSError:
                self._drop(stream)
                stream = None
        self._drop(stream)

    def _polling(self) -> Stream:
        stream = self._client.taken(self._period)
        try:
            stream.send(_POLL, self._poll, self._period)
        except BaseException:
            self._client.drop(stream)
            raise
        return stream

    def _listen(self, stream: Stream) -> None:
        """Wait until it is time for the next sign; raise the error of a loss."""
        _check(stream.response_within(self._period))

    def _signal(self, stream: Stream) -> None:
        stream.send(_BEAT, self._beat, self._period)
        _check(stream.receive())

    def _drop(self, stream: Stream | None) -> None:
        if stream is not None:
            self._client.drop(stream)


def _check(response: tuple[int, bytes] | None) -> None:
    if response is not None and response[0]:
        raise error_of(*response)
