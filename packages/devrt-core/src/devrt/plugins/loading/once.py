"""Work that is done once for each key, by one thread, while others wait and no lock is held.

What is done is plugin code, which may start threads, import other plugins and ask devrt questions
of its own. A lock held meanwhile would let two such plugins wait for each other for ever. Here
nothing is held; who has to wait looks whether the other waits for him, and is told so if it does.
"""

from __future__ import annotations

import contextvars
import os
import sys
import threading
import time
from collections.abc import Callable, Hashable
from types import FrameType
from typing import Any, Generic, TypeVar

from devrt.errors import PluginBusyError

__all__ = ["Once"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_FRAMES = 12
_FIRST_LOOK, _LONGEST_NAP = 0.02, 0.5


class _Attempt:
    """One thread's work on one key. Threads that it is handed to carry it in their context."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.owner = threading.get_ident()
        self.pid = os.getpid()
        self.done = threading.Event()
        self.waits_for: _Attempt | None = None


_mine: contextvars.ContextVar[tuple[_Attempt, ...]] = contextvars.ContextVar(
    "devrt_attempts", default=()
)


_waiting: dict[int, _Attempt] = {}  # by the thread that waits, which may have no context


class Once(Generic[K, V]):
    """Lets one thread at a time work on a key; whoever comes meanwhile waits for the result.

    Parameters
    ----------
    name
        Returns what is done to a key, as a clause for messages ("plugin x is being loaded").
    patience
        Returns the seconds that others wait for a key; None for as long as it takes.
    """

    def __init__(
        self, name: Callable[[K], str], patience: Callable[[K], float | None] = lambda _: None
    ) -> None:
        self._name = name
        self._patience = patience
        self._running: dict[K, _Attempt] = {}

    def get(self, key: K, known: Callable[[], V | None], make: Callable[[], V]) -> V:
        """Return what is known of a key, or else what ``make`` returns, which has to keep it.

        Raises
        ------
        PluginBusyError
            If the key's work waits for this very call to return, or takes longer than the
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
                _wait_for(running, self._patience(key), self._running)

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


def _wait_for(running: _Attempt, patience: float | None, others: dict[Any, _Attempt]) -> None:
    mine = _mine.get()
    _refuse_a_circle(running, mine)
    for attempt in mine:
        attempt.waits_for = running
    me = threading.get_ident()
    _waiting[me] = running
    began, nap = time.monotonic(), _FIRST_LOOK
    try:
        while not running.done.wait(nap):
            _refuse_a_circle(running, mine)
            circle = _waits_for_thread(running, me)
            # One that ended since may stand still for this thread, and keeps nobody waiting.
            if circle and not any(attempt.done.is_set() for attempt in circle):
                through = "".join(f", while {attempt.what}" for attempt in circle[1:])
                raise _busy(running, f"and waits for this thread, which asked for it{through}")
            if patience is not None and time.monotonic() - began > patience:
                beside = [other.what for other in others.copy().values() if other is not running]
                meanwhile = f"; meanwhile {', '.join(beside)}" if beside else ""
                raise _busy(running, f"in another thread, for more than {patience:g} s{meanwhile}")
            nap = min(2 * nap, _LONGEST_NAP)
    finally:
        del _waiting[me]
        for attempt in mine:
            attempt.waits_for = None


def _refuse_a_circle(running: _Attempt, mine: tuple[_Attempt, ...]) -> None:
    at: _Attempt | None = running
    seen: list[_Attempt] = []
    while at is not None and at not in seen:  # others may have closed a circle among themselves
        if at in mine:
            how = "by itself" if at is running else "by what it waits for"
            raise _busy(running, f"and was asked for meanwhile {how}")
        seen.append(at)
        at = at.waits_for


def _busy(running: _Attempt, why: str) -> PluginBusyError:
    msg = (
        f"{running.what} {why}. Ask devrt for nothing while a plugin is imported or its hooks, "
        "probe or factory run; its author must mend that."
    )
    return PluginBusyError(msg, owner=running.owner)


def _waits_for_thread(running: _Attempt, thread: int) -> list[_Attempt]:
    """Return the attempts through which one waits for a thread; none if it does not."""
    through, seen, frames = [running], set[int](), sys._current_frames()
    at: int | None = running.owner
    while at is not None and at not in seen:
        if at == thread:
            return through
        seen.add(at)
        waited = _waiting.get(at)
        if waited is not None:
            through.append(waited)
        at = _stands_still_for(frames.get(at)) if waited is None else waited.owner
    return []


def _stands_still_for(frame: FrameType | None) -> int | None:
    """Return the thread that another joins, or whose import it waits for."""
    for _ in range(_FRAMES):
        if frame is None:
            return None
        module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
        if (module, function) == ("threading", "join"):
            return getattr(frame.f_locals.get("self"), "ident", None)
        if module in ("importlib._bootstrap", "_frozen_importlib") and function == "acquire":
            return getattr(frame.f_locals.get("self"), "owner", None)
        frame = frame.f_back
    return None
