"""How much one process may keep in a service, and how many calls it may make."""

from __future__ import annotations

import time
from collections.abc import Callable

from devrt.distributed.faults import refused
from devrt.distributed.security import Bounds
from devrt.distributed.store import Entry, Store
from devrt.errors import StatusCode

__all__ = ["Quota", "Rate"]


class Quota:
    """The bytes of the keys in a store, by the process that set each.

    Parameters
    ----------
    store
        It is watched.
    bounds
        What a process, and all together, may keep.
    """

    def __init__(self, store: Store, bounds: Bounds) -> None:
        self._bounds = bounds
        self._owners: dict[str, tuple[int, int]] = {}  # process and bytes, by key
        self._kept: dict[int, int] = {}
        self._total = 0
        self._setting = -1
        store.watch("", self._note, prefix=True)

    def check(self, process: int, name: str, size: int) -> None:
        """Refuse a value for which there is no more space; what is set next is the process's."""
        owner, former = self._owners.get(name, (process, 0))
        size += len(name)
        own = self._kept.get(process, 0) + size - (former if owner == process else 0)
        everyone = self._total + size - former
        if own > self._bounds.process_bytes:
            words = (
                f"process {process} would keep {own} bytes in the coordination service, and each "
                f"may keep {self._bounds.process_bytes}. Delete keys that are not needed."
            )
            raise refused(StatusCode.RESOURCE_EXHAUSTED, words, process=process)
        if everyone > self._bounds.stored_bytes:
            words = f"the coordination service keeps at most {self._bounds.stored_bytes} bytes."
            raise refused(StatusCode.RESOURCE_EXHAUSTED, words)
        self._setting = process

    def _note(self, entry: Entry) -> None:
        owner, former = self._owners.pop(entry.key, (self._setting, 0))
        if former:
            self._add(owner, -former)
        if entry.value is not None:
            size = len(entry.key) + len(entry.value)
            self._owners[entry.key] = (self._setting, size)
            self._add(self._setting, size)

    def _add(self, process: int, size: int) -> None:
        self._total += size
        own = self._kept.get(process, 0) + size
        if own:
            self._kept[process] = own
        else:
            self._kept.pop(process, None)


class Rate:
    """Calls per second of each caller: as many at once, and then as time passes.

    Parameters
    ----------
    calls_per_second
        How many.
    clock
        Returns seconds.
    """

    def __init__(
        self, calls_per_second: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = calls_per_second
        self._clock = clock
        self._left: dict[int, tuple[float, float]] = {}  # of callers that have called; and when

    def check(self, caller: int) -> None:
        """Count a call; refuse it if there were too many."""
        now = self._clock()
        left, then = self._left.get(caller, (self._rate, now))
        left = min(self._rate, left + (now - then) * self._rate) - 1
        if left < 0:
            words = f"one process makes over {self._rate:g} calls in a second. Make fewer."
            raise refused(StatusCode.RESOURCE_EXHAUSTED, words)
        self._left[caller] = (left, now)
