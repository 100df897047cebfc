"""A step at which all processes of a job stop, once one of them gets notice of its end."""

from __future__ import annotations

import contextlib
import os
import signal
from threading import Event, Lock, Thread
from types import FrameType
from typing import Any

from devrt._support import log
from devrt.distributed.client import DistributedRuntimeClient
from devrt.distributed.faults import refused
from devrt.errors import DeadlineExceededError, DevrtError, StatusCode

__all__ = ["PreemptionSync"]

_NOTICE = "devrt/preemption/notice"
_STEPS = "devrt/preemption/step"
_DAY_MS = 24 * 3600 * 1000
_WAIT_MS = 60_000


class PreemptionSync:
    """Waits for SIGTERM in any process of a job, and agrees with the others on a step.

    Every process counts its steps. With a notice each tells the others its count, and makes no
    further step until it knows theirs: the step after the largest is the one.

    Parameters
    ----------
    client, process, size
        The job, and which of how many processes this is.
    """

    def __init__(self, client: DistributedRuntimeClient, process: int, size: int) -> None:
        self._client, self._process, self._size = client, process, size
        self._lock = Lock()
        self._count = 0
        self._stop: int | None = None
        self._error: DevrtError | None = None
        self._noticed = Event()
        self._is_closed = False
        try:
            self._former = signal.signal(signal.SIGTERM, self._note)
        except ValueError as error:
            words = "the first reached_preemption_sync_point has to be in the main thread."
            raise refused(StatusCode.FAILED_PRECONDITION, words) from error
        for work in (self._tell, self._wait):
            Thread(target=work, name="devrt-preemption", daemon=True).start()

    def reached(self) -> bool:
        """Count a step; return whether it is the one at which all stop.

        Raises
        ------
        DevrtError
            If the processes could not agree.
        """
        with self._lock:  # which is held while the processes agree
            if self._error is not None:
                raise self._error
            self._count += 1
            return self._count == self._stop

    def close(self) -> None:
        """Let SIGTERM be what it was. Idempotent."""
        self._is_closed = True
        self._noticed.set()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._is_closed:
            former: Any = self._former
            signal.signal(number, signal.SIG_DFL if former is None else former)
            os.kill(os.getpid(), number)
        self._noticed.set()

    def _tell(self) -> None:
        self._noticed.wait()
        if self._is_closed:
            return
        log.info("process %d is to be ended: the job agrees on a step", self._process)
        try:
            self._client.key_value_set(_NOTICE, str(self._process), allow_overwrite=True)
        except DevrtError as error:
            self._error = error

    def _wait(self) -> None:
        try:
            self._await_notice()
        except DevrtError:  # the job ended, or a process of it was lost: calls of the user say so
            return
        with self._lock:
            try:
                self._stop = self._agreed()
            except DevrtError as error:
                self._error = error

    def _await_notice(self) -> None:
        while True:
            with contextlib.suppress(DeadlineExceededError):  # a job may run for longer
                self._client.blocking_key_value_get(_NOTICE, _DAY_MS)
                return

    def _agreed(self) -> int:
        self._client.key_value_set(f"{_STEPS}/{self._process}", str(self._count))
        keys = [f"{_STEPS}/{process}" for process in range(self._size)]
        counts = [self._client.blocking_key_value_get(key, _WAIT_MS) for key in keys]
        return max(map(int, counts)) + 1
