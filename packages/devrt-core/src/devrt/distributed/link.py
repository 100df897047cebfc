"""What one process has of its coordination service, whatever carries the calls."""

from __future__ import annotations

import abc
import threading
import time
from collections.abc import Callable
from typing import Any

from devrt._support import log
from devrt.distributed.faults import refused
from devrt.distributed.protocol.messages import message
from devrt.distributed.security import Security
from devrt.errors import DevrtError, DistributedError, PeerLostError, StatusCode

__all__ = ["BEATS", "ONCE", "PAUSE", "Link", "is_once", "perhaps_done"]

BEATS = 4
"""Heartbeats in the time that may pass without one."""
PAUSE = 0.2
"""Seconds between attempts at a service that is gone, and may come back."""
ONCE = {"InsertKeyValue", "IncrementKeyValue"}
"""Calls that a second time are another thing."""
_ENDING = {StatusCode.UNAVAILABLE, StatusCode.CANCELLED}  # what a service that ends answers
_ROUNDS = 16384  # names of barriers that are remembered


class Link(abc.ABC):
    """A process's calls and heartbeats, from its registration to its end.

    Parameters
    ----------
    address
        The service's.
    process
        The number of this process.
    incarnation
        What tells this process from an earlier one with its number.
    security
        How the two sides know each other.
    heartbeat
        Seconds without an answer after which the service counts as lost.
    """

    def __init__(
        self, address: str, process: int, incarnation: int, security: Security, heartbeat: float
    ) -> None:
        self._address = address
        self._process = process
        self._security = security
        self._heartbeat = heartbeat
        self._ids = message("Incarnations")(task_id=process, task_incarnation=incarnation)
        self._lock = threading.Lock()
        self._rounds: dict[str, int] = {}
        self._ended = threading.Event()
        self._was_reported = False
        self._resumes = False  # whether another service may carry on after this one
        self.message_bytes: int | None = None  # the longest message that it takes, where known
        self.loss: DevrtError | None = None
        self.is_joined = False
        self.on_loss: Callable[[Exception], Any] | None = None

    def join(self, seconds: float, size: int | None = None) -> None:
        """Register, and begin to give signs of life. A job of another size is refused."""
        if self.is_joined:
            return
        if self._ended.is_set():
            words = "connect() was called after shutdown(). Make another client."
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        request = message("RegisterTaskRequest")(
            incarnation=self._ids.task_incarnation,
            source_task_id=self._process,
            num_processes=size,
        )
        log.info("process %d joins the cluster at %s", self._process, self._address)
        answer = self._registered(request, seconds)
        self._ids.service_incarnation = answer.service_incarnation
        self.is_joined = True
        self._begin_signs()
        log.info("process %d is connected: all processes are there", self._process)

    def _registered(self, request: Any, seconds: float) -> Any:
        """Register; again where the service is one of an earlier job, which is ending."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self._register(request, max(0.0, end - time.monotonic()))
            except DistributedError as error:
                is_final = isinstance(error, PeerLostError) or error.code not in _ENDING
                if is_final or time.monotonic() + PAUSE > end:
                    raise
                log.info("process %d joins again: %s", self._process, error)
                if self._ended.wait(PAUSE):
                    raise

    @abc.abstractmethod
    def _register(self, request: Any, seconds: float) -> Any:
        """Return the answer to a registration, which waits for all processes."""

    @abc.abstractmethod
    def _begin_signs(self) -> None:
        """Begin to give signs of life, and to learn of losses."""

    @abc.abstractmethod
    def call(self, method: str, request: Any, seconds: float) -> Any:
        """Make a call that waits for no other process."""

    @abc.abstractmethod
    def wait(self, method: str, request: Any, seconds: float, what: str) -> Any:
        """Make a call that waits for others: it ends, with the error, where one is lost."""

    @abc.abstractmethod
    def _interrupt(self) -> None:
        """End the calls that wait."""

    @abc.abstractmethod
    def _close(self) -> None:
        """Give the connections back; nothing is called any more."""

    def round(self, barrier: str) -> int:
        """Return how often a barrier has been passed."""
        return self._rounds.get(barrier, -1) + 1

    def passed(self, barrier: str, counter: int) -> None:
        """Note that a barrier was passed.

        jaxlib's service refuses a barrier with the number of an earlier use; devrt's needs none.
        A job that gives each barrier a name of its own must not grow: the oldest are forgotten.
        """
        with self._lock:
            self._rounds.pop(barrier, None)
            self._rounds[barrier] = counter
            if len(self._rounds) > _ROUNDS:
                del self._rounds[next(iter(self._rounds))]

    def leave(self, seconds: float, grace: float = 0) -> None:
        """Leave the cluster, together with the others, and close. Idempotent.

        Parameters
        ----------
        seconds
            How long to wait for the others.
        grace
            How much longer for the service to say who has not come.
        """
        with self._lock:
            was_joined, self.is_joined = self.is_joined, False
        try:
            if was_joined and not self._ended.is_set():
                kind = message("ShutdownTaskRequest")
                waited = max(1, round(seconds * 1000))
                request = kind(source_task_id=self._process, shutdown_timeout_in_ms=waited)
                self.call("ShutdownTask", request, seconds + grace)
        except DevrtError:
            if not self._was_reported:
                raise
        finally:
            self.close()

    def close(self) -> None:
        """End heartbeats and calls that wait. Idempotent."""
        self.is_joined = False
        self._ended.set()
        self._interrupt()
        self._close()

    def _check_service(self) -> None:
        """Raise where the service is lost: no call waits for that a second time."""
        if self.loss is not None and not isinstance(self.loss, PeerLostError):
            raise self.loss.fresh()

    def _check_joined(self, what: str) -> None:
        if not self.is_joined:
            words = f"{what} needs connect() first, and no shutdown()."
            raise refused(StatusCode.FAILED_PRECONDITION, words)

    def _poll_request(self) -> Any:
        kind = message("PollForErrorRequest")
        return kind(incarnations=self._ids, source_task_id=self._process)

    def _heartbeat_request(self) -> Any:
        return message("HeartbeatRequest")(
            incarnations=self._ids,
            incarnation=self._ids.task_incarnation,
            source_task_id=self._process,
        )

    def _lose(self, error: DevrtError) -> None:
        """Take note of a loss, once; end what waits, and report it."""
        is_peer = isinstance(error, PeerLostError)
        with self._lock:
            is_leaving = not self.is_joined
            if self.loss is not None or (is_leaving and is_peer):
                return
            self.loss = error
            self._was_reported = not is_leaving
        log.info("process %d: %s", self._process, error)
        if not is_peer:  # else the service ends the calls that it hits
            self._interrupt()
        if self.on_loss is not None and not is_leaving:
            self.on_loss(error)

    def _cancelled(self, what: str) -> DevrtError:
        if self.loss is not None:
            return self.loss.fresh()
        return refused(StatusCode.CANCELLED, f"{what} ended: this client was shut down.")


def is_once(method: str, request: Any) -> bool:
    """Return whether a call that is made a second time is another thing."""
    return method in ONCE and not getattr(request, "allow_overwrite", False)


def perhaps_done(what: str) -> DevrtError:
    """Return the error for a call that may have been done, and must not be made again."""
    words = f"the service went away during {what}: it may have been done, or not."
    return refused(StatusCode.UNAVAILABLE, words)
