"""One process's link to devrt's own service, without gRPC."""

from __future__ import annotations

import threading
import time
from typing import Any

from devrt.distributed.direct.client import DirectClient
from devrt.distributed.direct.signs import Signs
from devrt.distributed.direct.stream import ForeignError, NotSentError, SilentError
from devrt.distributed.faults import refused
from devrt.distributed.link import PAUSE, Link, is_once, perhaps_done
from devrt.distributed.security import Security, bound_address
from devrt.errors import DevrtError, StatusCode

__all__ = ["DirectLink"]

_FIRST_PAUSE = 0.01  # between attempts at a service that is not there yet; doubled, up to `PAUSE`


class DirectLink(Link):
    """Direct connections of one process; parameters are those of `Link`."""

    def __init__(
        self, address: str, process: int, incarnation: int, security: Security, heartbeat: float
    ) -> None:
        super().__init__(address, process, incarnation, security, heartbeat)
        host, port = bound_address(address)
        self._calls = DirectClient(host, port, security.token or "")

    def _register(self, request: Any, seconds: float) -> Any:
        """Register; the service may not be there yet.

        Raises
        ------
        ForeignError
            Another service than devrt's is there.
        """
        what, pause = f"process {self._process} joining the cluster", _FIRST_PAUSE
        end = time.monotonic() + seconds
        while True:
            try:
                answer = self._calls.call("RegisterTask", request, end - time.monotonic())
                self._resumes = bool(self._calls.resumes)
                self.message_bytes = self._calls.message_bytes
                return answer
            except (DevrtError, ForeignError):  # some of the former are TimeoutErrors too
                raise
            except NotSentError as error:
                if time.monotonic() + pause > end:
                    raise self._late(what, seconds, f": {error}") from error
            except SilentError as error:
                raise self._late(what, seconds, f": {error}") from error
            except TimeoutError as error:
                raise self._late(what, seconds) from error
            except OSError as error:
                raise self._gone(what, error) from error
            if self._ended.wait(pause):
                raise self._cancelled(what)
            pause = min(2 * pause, PAUSE)

    def _begin_signs(self) -> None:
        requests = self._poll_request(), self._heartbeat_request()
        signs = Signs(self._calls, *requests, self._heartbeat, self._ended, self._lose)
        threading.Thread(target=signs.run, name="devrt-heartbeat", daemon=True).start()

    def call(self, method: str, request: Any, seconds: float) -> Any:
        """Make a call that waits for no other process."""
        return self._made(method, request, seconds, method)

    def wait(self, method: str, request: Any, seconds: float, what: str) -> Any:
        """Make a call that waits for others: it ends, with the error, where one is lost."""
        self._check_joined(what)
        return self._made(method, request, seconds, what)

    def _made(self, method: str, request: Any, seconds: float, what: str) -> Any:
        """Make a call; again where the service is gone, and another may carry on."""
        request.incarnations.CopyFrom(self._ids)
        self._check_service()
        end = time.monotonic() + seconds
        while True:
            try:
                return self._calls.call(method, request, end - time.monotonic())
            except DevrtError:  # some are TimeoutErrors too
                raise
            except TimeoutError as error:
                raise self._late(what, seconds) from error
            except OSError as error:
                if self._ended.is_set() or self.loss is not None:
                    raise self._cancelled(what) from error
                if self._resumes and is_once(method, request) and not _was_unsent(error):
                    raise perhaps_done(what) from error
                if not self._resumes or time.monotonic() + PAUSE >= end:
                    raise self._gone(what, error) from error
            if self._ended.wait(PAUSE) or self.loss is not None:
                raise self._cancelled(what)

    def _interrupt(self) -> None:
        self._calls.interrupt()

    def _close(self) -> None:
        self._calls.close()

    def _late(self, what: str, seconds: float, more: str = "") -> DevrtError:
        words = f"{what} had no answer from the coordination service at {self._address} within"
        return refused(StatusCode.DEADLINE_EXCEEDED, f"{words} {seconds:g} s{more}.")

    def _gone(self, what: str, error: OSError) -> DevrtError:
        words = f"{what} failed at the coordination service {self._address}: {error}."
        return refused(StatusCode.UNAVAILABLE, words)


def _was_unsent(error: OSError) -> bool:
    return isinstance(error, NotSentError)
