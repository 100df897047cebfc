"""Work that runs beside the thread that has it done, in order: one exchange after the other."""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable

__all__ = ["Lane"]

Job = Callable[[], None]


class Lane:
    """Jobs that run one at a time, in the order in which they come."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._count = 0
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._has_thread = False

    def run(self, job: Job) -> None:
        """Run a job and return when it has ended: in this thread, if no other is under way.

        What it raises goes through.
        """
        with self._lock:
            is_first = self._count == 0
            self._count += 1
        if is_first:
            try:
                with self._running:  # the thread may have begun what was submitted meanwhile
                    job()
            finally:
                self._ended()
            return
        done = threading.Event()
        failures: list[BaseException] = []

        def run() -> None:
            try:
                job()
            except BaseException as error:  # noqa: BLE001  raised in the caller's thread
                failures.append(error)
            finally:
                done.set()

        self._add(run)
        done.wait()
        if failures:
            raise failures[0]

    def submit(self, job: Job) -> None:
        """Let a thread run a job, which must not raise, after those that came before."""
        with self._lock:
            self._count += 1
        self._add(job)

    def _add(self, job: Job) -> None:
        def run() -> None:
            with self._running:
                job()
            self._ended()

        self._jobs.put(run)
        with self._lock:
            is_first, self._has_thread = not self._has_thread, True
        if is_first:
            # A daemon: programs are waited for before the interpreter ends, and so are their jobs.
            threading.Thread(
                target=_run, args=(self._jobs,), name="devrt-collectives", daemon=True
            ).start()
            weakref.finalize(self, self._jobs.put, None).atexit = False

    def _ended(self) -> None:
        with self._lock:
            self._count -= 1


def _run(jobs: queue.SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # which holds the lane
