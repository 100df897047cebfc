"""One process's connection to a coordination service: calls, heartbeats, and what ends waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from devrt._support import log
from devrt.distributed.channel import methods_of, opened
from devrt.distributed.direct.client import DirectClient, NotSentError
from devrt.distributed.direct.frames import PORT_KEY
from devrt.distributed.faults import from_wire, refused
from devrt.distributed.jaxlib_errors import DETAILS, lost_at_jaxlib
from devrt.distributed.protocol.contract import CONTRACT_METADATA
from devrt.distributed.protocol.messages import RESUMES_KEY, grpc_module, message
from devrt.distributed.security import Security, bound_address
from devrt.errors import DevrtError, DistributedError, PeerLostError, StatusCode

__all__ = ["Connection"]

_OWN = "devrt-error-bin"  # metadata of the errors of devrt's service
_ROUNDS = 16384  # names of barriers that are remembered
_PAUSE = 0.2
_ONCE = {"InsertKeyValue", "IncrementKeyValue"}  # what a second time is another thing
_BEATS = 4  # heartbeats in the time that may pass without one


class Connection:
    """The channel of one process, from its registration to its end.

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
    compress
        Whether messages are compressed.
    """

    def __init__(
        self,
        address: str,
        process: int,
        incarnation: int,
        security: Security,
        heartbeat: float,
        compress: bool,
    ) -> None:
        self._grpc = grpc_module()
        self._address = address
        self._process = process
        self._security = security
        self._heartbeat = heartbeat
        self._ids = message("Incarnations")(task_id=process, task_incarnation=incarnation)
        self._channel = opened(address, security, compress)
        self._methods = methods_of(self._channel)
        self._lock = threading.Lock()
        self._waits: set[Any] = set()
        self._rounds: dict[str, int] = {}
        self._ended = threading.Event()
        self._poll: Any = None
        self._is_over = False
        self._was_reported = False
        self._direct: DirectClient | None = None
        self._resumes = False  # whether another service may carry on after this one
        self.loss: DevrtError | None = None
        self.is_joined = False
        self.on_loss: Callable[[Exception], Any] | None = None

    def join(self, seconds: float) -> None:
        """Register, and begin to give signs of life."""
        if self.is_joined:
            return
        if self._ended.is_set():
            words = "connect() was called after shutdown(). Make another client."
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        request = message("RegisterTaskRequest")(
            incarnation=self._ids.task_incarnation, source_task_id=self._process
        )
        log.info("process %d joins the cluster at %s", self._process, self._address)
        try:
            answer, ended = self._methods["RegisterTask"].with_call(
                request,
                timeout=seconds,
                wait_for_ready=True,
                metadata=self._security.metadata + CONTRACT_METADATA,
            )
        except self._grpc.RpcError as error:
            raise self._error(error, f"process {self._process} joining the cluster") from error
        self._ids.service_incarnation = answer.service_incarnation
        offered = dict(ended.trailing_metadata() or ())
        self._resumes = RESUMES_KEY in offered
        self._follow(offered)
        self.is_joined = True
        threading.Thread(target=self._beat, name="devrt-heartbeat", daemon=True).start()
        self._begin_poll()
        log.info("process %d is connected: all processes are there", self._process)

    def call(self, method: str, request: Any, seconds: float) -> Any:
        """Make a call that waits for no other process."""
        request.incarnations.CopyFrom(self._ids)
        if self._direct is not None:
            return self._call_direct(self._direct, method, request, seconds, method)
        if self._resumes:
            return self._repeated(method, request, seconds, method)
        try:
            return self._methods[method](request, timeout=seconds, metadata=self._security.metadata)
        except self._grpc.RpcError as error:
            raise self._error(error, method) from error

    def wait(self, method: str, request: Any, seconds: float, what: str) -> Any:
        """Make a call that waits for others: it ends, with the error, where one is lost."""
        if not self.is_joined:
            words = f"{what} needs connect() first, and no shutdown()."
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        if self._is_over and self.loss is not None:
            raise self.loss.fresh()
        request.incarnations.CopyFrom(self._ids)
        if self._direct is not None:
            return self._call_direct(self._direct, method, request, seconds, what)
        return self._repeated(method, request, seconds, what)

    def _repeated(self, method: str, request: Any, seconds: float, what: str) -> Any:
        """Make a call that can be cancelled; again where the service is gone, and may come back."""
        end = time.monotonic() + seconds
        while True:
            try:
                return self._cancellable(method, request, end - time.monotonic(), what)
            except DistributedError as error:
                if not self._resumes or not isinstance(error.__cause__, self._grpc.RpcError):
                    raise
                if _OWN in dict(error.__cause__.trailing_metadata() or ()):
                    raise
                if error.code is not StatusCode.UNAVAILABLE or time.monotonic() >= end:
                    raise
                if _is_once(method, request):
                    raise _perhaps_done(what) from error
            if self._ended.wait(_PAUSE) or self.loss is not None:
                raise self._cancelled(what)

    def _cancellable(self, method: str, request: Any, seconds: float, what: str) -> Any:
        with self._lock:
            future = self._methods[method].future(
                request,
                timeout=seconds,
                # What must not be done twice is sent when there is a connection, else not at all.
                wait_for_ready=self._resumes and method in _ONCE,
                metadata=self._security.metadata,
            )
            self._waits.add(future)
        try:
            if self._ended.is_set():
                future.cancel()
            return future.result()
        except self._grpc.FutureCancelledError as error:
            raise self._cancelled(what) from error
        except self._grpc.RpcError as error:
            raise self._error(error, what) from error
        finally:
            with self._lock:
                self._waits.discard(future)

    def _call_direct(
        self, direct: DirectClient, method: str, request: Any, seconds: float, what: str
    ) -> Any:
        end = time.monotonic() + seconds
        try:
            return direct.call(method, request, seconds)
        except DevrtError:  # some are TimeoutErrors too
            raise
        except TimeoutError as error:
            words = f"{what} had no answer from the coordination service within {seconds:g} s."
            raise refused(StatusCode.DEADLINE_EXCEEDED, words) from error
        except OSError as error:
            if self._ended.is_set() or self.loss is not None:
                raise self._cancelled(what) from error
            if self._resumes:
                return self._call_next(direct, method, request, end, what, error)
            words = f"{what} failed at the coordination service {self._address}: {error}."
            raise refused(StatusCode.UNAVAILABLE, words) from error

    def _call_next(
        self,
        direct: DirectClient,
        method: str,
        request: Any,
        end: float,
        what: str,
        error: OSError,
    ) -> Any:
        """Make a call at the service that carries on; a heartbeat's answer tells its own port."""
        with self._lock:
            if self._direct is direct:
                self._direct = None
        if not isinstance(error, NotSentError) and _is_once(method, request):
            raise _perhaps_done(what) from error
        return self._repeated(method, request, end - time.monotonic(), what)

    def _follow(self, offered: dict[str, Any]) -> None:
        """Use the direct port that the service offers, if it does."""
        port = offered.get(PORT_KEY, "")
        former = self._direct
        if not port.isdecimal() or (former is not None and former.port == int(port)):
            return
        host, _ = bound_address(self._address)
        with self._lock:
            self._direct = DirectClient(host, int(port), self._security.token or "")
        if former is not None:
            former.close()

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

    def leave(self, seconds: float) -> None:
        """Leave the cluster, together with the others, and close. Idempotent."""
        with self._lock:
            was_joined, self.is_joined = self.is_joined, False
        try:
            if was_joined and not self._ended.is_set():
                kind = message("ShutdownTaskRequest")
                request = kind(source_task_id=self._process)
                self.call("ShutdownTask", request, seconds)
        except DevrtError:
            if not self._was_reported:
                raise
        finally:
            self.close()

    def close(self, _: float = 0) -> None:
        """End heartbeats and calls that wait. Idempotent."""
        self.is_joined = False
        self._ended.set()
        self._cancel_waits()
        if self._poll is not None:
            self._poll.cancel()
        if self._direct is not None:
            self._direct.close()
        self._channel.close()

    def _beat(self) -> None:
        """Give signs of life until the end, or until the service is silent for too long."""
        request = message("HeartbeatRequest")(
            incarnations=self._ids,
            incarnation=self._ids.task_incarnation,
            source_task_id=self._process,
        )
        period = self._heartbeat / _BEATS
        failures = 0
        while not self._ended.wait(period):
            try:
                _, call = self._methods["Heartbeat"].with_call(
                    request, timeout=period, metadata=self._security.metadata
                )
                failures = 0
                self._follow(dict(call.trailing_metadata() or ()))
                if self._poll.done() and self.loss is None:
                    self._begin_poll()  # the service is back
            except (self._grpc.RpcError, ValueError) as error:  # ValueError: a closed channel
                failures += 1
                if self._ended.is_set() or not self._is_final(error, failures):
                    continue
                self._lose(self._error(error, "the heartbeat"))
                return

    def _begin_poll(self) -> None:
        """Let the service say when a process is lost."""
        poll = message("PollForErrorRequest")(incarnations=self._ids, source_task_id=self._process)
        self._poll = self._methods["PollForError"].future(poll, metadata=self._security.metadata)
        self._poll.add_done_callback(self._polled)

    def _is_final(self, error: Exception, failures: int) -> bool:
        silent = {self._grpc.StatusCode.UNAVAILABLE, self._grpc.StatusCode.DEADLINE_EXCEEDED}
        code = getattr(error, "code", lambda: None)()
        return (
            failures >= _BEATS
            or (code not in silent and code is not None)
            or (self.loss is not None)
        )

    def _polled(self, future: Any) -> None:
        if self._ended.is_set() or future.cancelled():
            return
        error = future.exception()
        if error is None:
            return
        loss = self._error(error, "the job")
        silent = {self._grpc.StatusCode.UNAVAILABLE, self._grpc.StatusCode.CANCELLED}
        # A service that is gone is found by the heartbeats, which try again.
        if isinstance(loss, PeerLostError) or error.code() not in silent:
            self._lose(loss)
            if _OWN not in dict(error.trailing_metadata() or ()):
                self._is_over = True  # jaxlib's service leaves those that wait for keys
                self._cancel_waits()

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
            self._cancel_waits()
        if self.on_loss is not None and not is_leaving:
            self.on_loss(error)

    def _cancel_waits(self) -> None:
        with self._lock:
            waits = list(self._waits)
        for future in waits:
            future.cancel()
        if self._direct is not None:
            self._direct.interrupt()

    def _cancelled(self, what: str) -> DevrtError:
        if self.loss is not None:
            return self.loss.fresh()
        return refused(StatusCode.CANCELLED, f"{what} ended: this client was shut down.")

    def _error(self, error: Any, what: str) -> DevrtError:
        if not hasattr(error, "code"):
            return DistributedError(f"{what} failed: {error}", code=StatusCode.CANCELLED)
        code = int(error.code().value[0])
        metadata = dict(error.trailing_metadata() or ())
        if details := metadata.get(_OWN):
            return from_wire(code, str(error.details()), bytes(details))
        lost = lost_at_jaxlib(bytes(metadata.get(DETAILS, b"")), str(error.details()))
        if lost is not None:
            return lost
        words = f"{what} failed at the coordination service {self._address}: {error.details()}"
        return from_wire(code, words, None)


def _is_once(method: str, request: Any) -> bool:
    """Return whether a call that is made a second time is another thing."""
    return method in _ONCE and not getattr(request, "allow_overwrite", False)


def _perhaps_done(what: str) -> DevrtError:
    words = f"the service went away during {what}: it may have been done, or not."
    return refused(StatusCode.UNAVAILABLE, words)
