"""Processes that wait for each other: until all have come, one is lost, or the time is over."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

__all__ = ["Done", "Gathering"]

Done = Callable[[Any], object]
"""Called once: with None where the wait succeeded, else with its error."""


class Gathering:
    """One wait of several processes for each other.

    Parameters
    ----------
    what
        The wait in words, for errors.
    expected
        The processes that have to come.
    seconds
        The time that it may take; the first process that comes sets it.
    now
        The time at which it begins.
    """

    def __init__(self, what: str, expected: Collection[int], seconds: float, now: float) -> None:
        self.what = what
        self.expected = set(expected)
        self.seconds = seconds
        self.deadline = now + seconds
        self._waiting: dict[int, list[Done]] = {}

    @property
    def arrived(self) -> set[int]:
        """The processes that have come."""
        return set(self._waiting)

    @property
    def missing(self) -> list[int]:
        """The processes that have not come, in order."""
        return sorted(self.expected - self._waiting.keys())

    @property
    def is_complete(self) -> bool:
        """Whether all have come."""
        return self.expected <= self._waiting.keys()

    def arrive(self, process: int, done: Done) -> None:
        """Let a process wait; one that calls again waits with both calls."""
        self._waiting.setdefault(process, []).append(done)

    def withdraw(self, process: int, done: Done | None = None) -> list[Done]:
        """Forget that a process came, or one of its calls; return what is not called any more."""
        calls = self._waiting.pop(process, [])
        kept = [] if done is None else [one for one in calls if one is not done]
        if kept:
            self._waiting[process] = kept
        return [one for one in calls if one not in kept]

    def end(self, error: Exception | None) -> None:
        """End the wait of all: with the error, where there is one."""
        waiting, self._waiting = self._waiting, {}
        for calls in waiting.values():
            for done in calls:
                done(error)
