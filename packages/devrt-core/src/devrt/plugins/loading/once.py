"""Work that is done once for each key, by one thread, while others wait and no lock is held.

What is done is plugin code, which may start threads, import other plugins and ask devrt questions
of its own. Work that asks for itself, or for what waits for it, would wait for ever, and gets an
error at once. Circles through threads that plugins start end with the deadline of the wait, or of
the work itself where child processes do it.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from devrt.errors import PluginBusyError

__all__ = ["Once"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class _Attempt:
    """One thread's work on one key."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.pid = os.getpid()
        self.done = threading.Event()
        self.waits_for: _Attempt | None = None


_mine: contextvars.ContextVar[tuple[_Attempt, ...]] = contextvars.ContextVar(
    "devrt_attempts", default=()
)


class Once(Generic[K, V]):
    """Lets one thread at a time work on a key; one that comes meanwhile waits for the result.

    ``name`` returns what is done to a key, as a clause for messages ("plugin x is being loaded");
    ``patience`` the seconds that others wait for a key, None for as long as it takes.
    """

    def __init__(
        self, name: Callable[[K], str], patience: Callable[[K], float | None] = lambda _: None
    ) -> None:
        self._name = name
        self._patience = patience
        self._running: dict[K, _Attempt] = {}

    def get(
        self,
        key: K,
        known: Callable[[], V | None],
        make: Callable[[], V],
        patience: float | None = None,
    ) -> V:
        """Return what is known of a key, or else what ``make`` returns, which has to keep it.

        Raises `PluginBusyError` if the key's work asks for itself, or takes longer than the
        patience; never kept, so that a later call may succeed.
        """
        while True:
            value = known()
            if value is not None:
                return value
            attempt = _Attempt(self._name(key))
            running = self._running.setdefault(key, attempt)  # atomic: of two threads one wins
            if running is attempt:
                return self._work(key, attempt, known, make)
            if running.pid != os.getpid():  # its thread did not come along when this one forked
                self._running.pop(key, None)
            else:
                self._wait_for(running, patience or self._patience(key))

    def _work(
        self, key: K, attempt: _Attempt, known: Callable[[], V | None], make: Callable[[], V]
    ) -> V:
        token = _mine.set((*_mine.get(), attempt))
        try:
            value = known()  # another thread may have ended in between
            return make() if value is None else value
        finally:
            _mine.reset(token)
            if self._running.get(key) is attempt:
                del self._running[key]
            attempt.done.set()

    def _wait_for(self, running: _Attempt, patience: float | None) -> None:
        mine = _mine.get()
        for attempt in mine:
            attempt.waits_for = running
        try:
            _refuse_a_circle(running, mine)
            is_done = running.done.wait(patience)
        finally:
            for attempt in mine:
                attempt.waits_for = None
        if not is_done:
            beside = [other.what for other in self._running.copy().values() if other is not running]
            meanwhile = f"; meanwhile {', '.join(beside)}" if beside else ""
            raise _busy(running, f"in another thread, for more than {patience:g} s{meanwhile}")


def _refuse_a_circle(running: _Attempt, mine: tuple[_Attempt, ...]) -> None:
    """Refuse to wait for work that waits for work of this thread: neither would end."""
    at: _Attempt | None = running
    seen: list[_Attempt] = []
    while at is not None and at not in seen:  # others may close a circle among themselves
        if at in mine:
            how = "by itself" if at is running else "by what it waits for"
            raise _busy(running, f"and was requested meanwhile {how}")
        seen.append(at)
        at = at.waits_for


def _busy(running: _Attempt, why: str) -> PluginBusyError:
    msg = (
        f"{running.what} {why}. Ask devrt for nothing while a plugin is imported or its hooks, "
        "probe or factory run; its author must fix that."
    )
    return PluginBusyError(msg)
