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
from typing import Generic, TypeVar

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


class Once(Generic[K, V]):
    """Lets one thread at a time work on a key; whoever comes meanwhile waits for the result.

    Parameters
    ----------
    name
        Returns what is done to a key, as a clause for messages ("plugin x is being loaded").
    patience
        Returns the seconds that others wait; None for as long as it takes.
    """

    def __init__(
        self, name: Callable[[K], str], patience: Callable[[], float | None] = lambda: None
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
                _wait_for(running, self._patience())

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


def _wait_for(running: _Attempt, patience: float | None) -> None:
    mine = _mine.get()
    _refuse_a_circle(running, mine)
    for attempt in mine:
        attempt.waits_for = running
    began, nap = time.monotonic(), _FIRST_LOOK
    try:
        while not running.done.wait(nap):
            _refuse_a_circle(running, mine)
            if _waits_for_this_thread(running.owner):
                raise _busy(running, "and waits for this thread, which asked for it")
            if patience is not None and time.monotonic() - began > patience:
                raise _busy(running, f"in another thread, for more than {patience:g} s")
            nap = min(2 * nap, _LONGEST_NAP)
    finally:
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


def _waits_for_this_thread(owner: int) -> bool:
    """Return whether a thread stands still in a join of this one, or at an import of this one's."""
    frame: FrameType | None = sys._current_frames().get(owner)
    for _ in range(_FRAMES):
        if frame is None:
            return False
        module, function = frame.f_globals.get("__name__"), frame.f_code.co_name
        if (module, function) == ("threading", "join"):
            return frame.f_locals.get("self") is threading.current_thread()
        if module in ("importlib._bootstrap", "_frozen_importlib") and function == "acquire":
            lock = frame.f_locals.get("self")
            return getattr(lock, "owner", None) == threading.get_ident()
        frame = frame.f_back
    return False
