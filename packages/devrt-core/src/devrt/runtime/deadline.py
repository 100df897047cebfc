"""Calls that may hang: warned about while they last, and given up at a deadline."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from devrt.errors import DeadlineExceededError

__all__ = ["call_with_deadline", "warned_after"]

T = TypeVar("T")

_LAST_WAIT = 5.0  # seconds, at exit
_running: set[threading.Thread] = set()


@contextlib.contextmanager
def warned_after(seconds: float | None, on_slow: Callable[[], None]) -> Iterator[None]:
    """Call ``on_slow`` from another thread if the ``with`` block lasts longer than ``seconds``."""
    if seconds is None:
        yield
        return
    timer = threading.Timer(seconds, on_slow)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def call_with_deadline(
    function: Callable[[], T], timeout: float | None, on_late: Callable[[T], None]
) -> T:
    """Call a function and give it up after a while.

    Without a timeout it runs in this thread. With one it runs in a thread of its own, which sees
    this thread's context variables and cannot be stopped: given up, it goes on, and what it returns
    in the end goes to ``on_late``, in that thread. The interpreter's exit waits a few seconds for
    such threads, and then goes on without them. Raises `DeadlineExceededError` if it is given up.
    """
    if timeout is None:
        return function()
    attempt = _Attempt(function, on_late)
    context = contextvars.copy_context()

    def run() -> None:
        try:
            context.run(attempt.run)
        finally:
            _running.discard(thread)

    thread = threading.Thread(target=run, daemon=True)
    _running.add(thread)
    thread.start()
    return attempt.result(timeout)


@atexit.register
def _wait_for_the_last() -> None:
    """Let threads end by themselves: one that is ended in native code takes the process along."""
    end = time.monotonic() + _LAST_WAIT
    for thread in _running.copy():
        if thread.is_alive():
            thread.join(max(0.0, end - time.monotonic()))


class _Attempt(Generic[T]):
    def __init__(self, function: Callable[[], T], on_late: Callable[[T], None]) -> None:
        self._function = function
        self._on_late = on_late
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._given_up = False
        self._value: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            value = self._function()
        except BaseException as error:  # noqa: BLE001  raised again by the thread that waits
            self._error = error
            self._done.set()
            return
        with self._lock:
            late = self._given_up
            if not late:
                self._value.append(value)
                self._done.set()
        if late:
            self._on_late(value)

    def result(self, timeout: float) -> T:
        if not self._done.wait(timeout):
            with self._lock:
                self._given_up = not self._done.is_set()
        if self._given_up:
            msg = f"it did not finish within {timeout:g} s"
            raise DeadlineExceededError(msg, timeout=timeout)
        if self._error is not None:
            raise self._error
        return self._value[0]
