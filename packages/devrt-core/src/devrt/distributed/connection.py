"""One process's link to a coordination service by gRPC: jaxlib's, or one with certificates."""

from __future__ import annotations

import threading
import time
from typing import Any

from devrt.distributed.channel import methods_of, opened
from devrt.distributed.faults import from_wire
from devrt.distributed.jaxlib_errors import DETAILS, lost_at_jaxlib
from devrt.distributed.link import BEATS, ONCE, PAUSE, Link, is_once, perhaps_done
from devrt.distributed.protocol.contract import CONTRACT_METADATA
from devrt.distributed.protocol.messages import ERROR_KEY, LIMIT_KEY, RESUMES_KEY, grpc_module
from devrt.distributed.protocol.open_calls import kept
from devrt.distributed.security import Security
from devrt.errors import DevrtError, DistributedError, PeerLostError, StatusCode

__all__ = ["Connection"]


class Connection(Link):
    """The channel of one process; parameters are those of `Link`, and whether to compress."""

    def __init__(
        self,
        address: str,
        process: int,
        incarnation: int,
        security: Security,
        heartbeat: float,
        compress: bool,
    ) -> None:
        super().__init__(address, process, incarnation, security, heartbeat)
        self._grpc = grpc_module()
        self._channel = opened(address, security, compress)
        self._methods = methods_of(self._channel)
        self._waits: set[Any] = set()
        self._poll: Any = None
        self._is_over = False

    def _register(self, request: Any, seconds: float) -> Any:
        try:
            answer, ended = self._methods["RegisterTask"].with_call(
                request,
                timeout=seconds,
                wait_for_ready=True,
                metadata=self._security.metadata + CONTRACT_METADATA,
            )
        except self._grpc.RpcError as error:
            raise self._error(error, f"process {self._process} joining the cluster") from error
        offered = dict(ended.trailing_metadata() or ())
        self._resumes = RESUMES_KEY in offered
        self.message_bytes = int(offered.get(LIMIT_KEY, 0)) or None
        return answer

    def _begin_signs(self) -> None:
        threading.Thread(target=self._beat, name="devrt-heartbeat", daemon=True).start()
        self._begin_poll()

    def call(self, method: str, request: Any, seconds: float) -> Any:
        """Make a call that waits for no other process."""
        request.incarnations.CopyFrom(self._ids)
        self._check_service()
        return self._repeated(method, request, seconds, method)

    def wait(self, method: str, request: Any, seconds: float, what: str) -> Any:
        """Make a call that waits for others: it ends, with the error, where one is lost."""
        self._check_joined(what)
        if self._is_over and self.loss is not None:
            raise self.loss.fresh()
        self._check_service()
        request.incarnations.CopyFrom(self._ids)
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
                if ERROR_KEY in dict(error.__cause__.trailing_metadata() or ()):
                    raise
                if error.code is not StatusCode.UNAVAILABLE or time.monotonic() >= end:
                    raise
                if is_once(method, request):
                    raise perhaps_done(what) from error
            if self._ended.wait(PAUSE) or self.loss is not None:
                raise self._cancelled(what)

    def _cancellable(self, method: str, request: Any, seconds: float, what: str) -> Any:
        with self._lock:
            future = kept(
                self._methods[method].future(
                    request,
                    timeout=seconds,
                    # What must not be done twice is sent when there is a connection, or not at all.
                    wait_for_ready=self._resumes and method in ONCE,
                    metadata=self._security.metadata,
                )
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

    def _interrupt(self) -> None:
        with self._lock:
            waits = list(self._waits)
        for future in waits:
            future.cancel()

    def _close(self) -> None:
        if self._poll is not None:
            self._poll.cancel()
        self._channel.close()

    def _beat(self) -> None:
        """Give signs of life until the end, or until the service is silent for too long."""
        request, failures = self._heartbeat_request(), 0
        period = self._heartbeat / BEATS
        while not self._ended.wait(period):
            try:
                self._methods["Heartbeat"](
                    request, timeout=period, metadata=self._security.metadata
                )
                failures = 0
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
        call = self._methods["PollForError"]
        self._poll = kept(call.future(self._poll_request(), metadata=self._security.metadata))
        self._poll.add_done_callback(self._polled)

    def _is_final(self, error: Exception, failures: int) -> bool:
        silent = {self._grpc.StatusCode.UNAVAILABLE, self._grpc.StatusCode.DEADLINE_EXCEEDED}
        code = getattr(error, "code", lambda: None)()
        return (
            failures >= BEATS
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
            if ERROR_KEY not in dict(error.trailing_metadata() or ()):
                self._is_over = True  # jaxlib's service leaves those that wait for keys
                self._interrupt()

    def _error(self, error: Any, what: str) -> DevrtError:
        if not hasattr(error, "code"):
            return DistributedError(f"{what} failed: {error}", code=StatusCode.CANCELLED)
        code = int(error.code().value[0])
        metadata = dict(error.trailing_metadata() or ())
        if details := metadata.get(ERROR_KEY):
            return from_wire(code, str(error.details()), bytes(details))
        lost = lost_at_jaxlib(bytes(metadata.get(DETAILS, b"")), str(error.details()))
        if lost is not None:
            return lost
        words = f"{what} failed at the coordination service {self._address}: {error.details()}"
        return from_wire(code, words, None)
