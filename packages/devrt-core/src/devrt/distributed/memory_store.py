"""A store in the memory of one process: the embedded service's."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping

from devrt.distributed.numerals import added
from devrt.distributed.store import Entry, Lease, Store, Watch
from devrt.errors import DistributedError, StatusCode

__all__ = ["MemoryStore"]

_OnChange = Callable[[Entry], object]


class MemoryStore(Store):
    """Keys and values in this process.

    Functions of watches are called by the thread that makes the change, after it is made.

    Parameters
    ----------
    clock
        Returns seconds; leases are compared with it at each call, and at ``expire``.

    Attributes
    ----------
    before_change : callable
        Called with the values that keys get, by key, before they do; None is deleted. Where it
        raises, nothing is changed.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.before_change: Callable[[Mapping[str, bytes | None]], object] = lambda changes: None
        self._clock = clock
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._version = 0
        self._watches: dict[str, list[_MemoryWatch]] = {}
        self._prefix_watches: list[_MemoryWatch] = []
        self._leases: dict[str, _MemoryLease] = {}  # by key
        self._made: dict[int, _MemoryLease] = {}  # that have not ended
        self._numbers = itertools.count(1)

    def get(self, key: str) -> Entry | None:
        """Return a key's entry; None if it is not there."""
        with self._lock:
            self.expire()
            return self._entries.get(key)

    def range(self, prefix: str) -> list[Entry]:
        """Return the entries whose keys begin so, by key."""
        with self._lock:
            self.expire()
            found = [entry for key, entry in self._entries.items() if key.startswith(prefix)]
        return sorted(found, key=lambda entry: entry.key)

    def count(self, prefix: str) -> int:
        """Return how many keys begin so."""
        return len(self.range(prefix))

    def set(self, key: str, value: bytes, lease: Lease | None = None) -> int:
        """Set a key, whether it is there or not; return the version."""
        with self._lock:
            self.expire()
            return self._commit({key: value}, _own(lease))

    def delete(self, key: str, prefix: bool = False) -> int:
        """Delete a key, or all that begin so; return how many there were."""
        with self._lock:
            self.expire()
            if prefix:
                keys = [one for one in self._entries if one.startswith(key)]
            else:
                keys = [key] if key in self._entries else []
            self._commit(dict.fromkeys(keys))
            return len(keys)

    def increment(self, key: str, by: int = 1, lease: Lease | None = None) -> int:
        """Add to the number in a key's decimal text, from 0 where it is not there."""
        with self._lock:
            self.expire()
            former = self._entries.get(key)
            total = added(key, None if former is None else former.value, by)
            self._commit({key: str(total).encode()}, _own(lease))
            return total

    def transaction(
        self,
        expected: Mapping[str, int],
        changes: Mapping[str, bytes | None],
        lease: Lease | None = None,
    ) -> bool:
        """Make all changes if every expected key has its version, else none; return which."""
        with self._lock:
            self.expire()
            for key, version in expected.items():
                entry = self._entries.get(key)
                if version != (0 if entry is None else entry.version):
                    return False
            self._commit(changes, _own(lease))
            return True

    def watch(self, key: str, on_change: Callable[[Entry], object], prefix: bool = False) -> Watch:
        """Call a function with each change of a key, or of all that begin so, from now on."""
        with self._lock:
            group = self._prefix_watches if prefix else self._watches.setdefault(key, [])
            watch = _MemoryWatch(self, key, on_change, group)
            group.append(watch)
            return watch

    def lease(self, seconds: float) -> Lease:
        """Return a new lease that ends after so long without being renewed."""
        with self._lock:
            self._made = {n: one for n, one in self._made.items() if one.end > self._clock()}
            lease = _MemoryLease(self, next(self._numbers), seconds)
            self._made[lease.number] = lease
            return lease

    def shared_lease(self, number: int, seconds: float) -> Lease:
        """Return a lease that another process made, to renew it too."""
        with self._lock:
            lease = self._made.get(number)
        return _MemoryLease(self, number, 0) if lease is None else lease

    def close(self) -> None:
        """End all watches."""
        with self._lock:
            self._watches.clear()
            self._prefix_watches.clear()

    def expire(self) -> None:
        """Delete the keys whose leases have ended."""
        if not self._leases:
            return
        with self._lock:
            now = self._clock()
            self._commit(dict.fromkeys(k for k, lease in self._leases.items() if lease.end <= now))

    def _commit(
        self, changes: Mapping[str, bytes | None], lease: _MemoryLease | None = None
    ) -> int:
        """Make changes; return the version of the last."""
        if lease is not None:
            lease.check()
        real = {k: v for k, v in changes.items() if v is not None or k in self._entries}
        if real:
            self.before_change(real)
        for key, value in changes.items():
            self._change(key, value, lease)
        return self._version

    def _change(self, key: str, value: bytes | None, lease: _MemoryLease | None) -> int:
        self._version += 1
        entry = Entry(key, value, self._version)
        self._leases.pop(key, None)
        if value is None:
            if self._entries.pop(key, None) is None:
                return self._version
        else:
            self._entries[key] = entry
            if lease is not None:
                self._leases[key] = lease
        for watch in [*self._watches.get(key, ()), *self._prefix_watches]:
            if key.startswith(watch.key):
                watch.on_change(entry)
        return self._version


class _MemoryWatch(Watch):
    def __init__(
        self, store: MemoryStore, key: str, on_change: _OnChange, group: list[_MemoryWatch]
    ) -> None:
        self._store = store
        self.key = key
        self.on_change = on_change
        self._group = group

    def close(self) -> None:
        with self._store._lock:
            if self in self._group:
                self._group.remove(self)
            if not self._group and self._store._watches.get(self.key) is self._group:
                del self._store._watches[self.key]


class _MemoryLease(Lease):
    def __init__(self, store: MemoryStore, number: int, seconds: float) -> None:
        self._store = store
        self.number = number
        self._seconds = seconds
        self.end = store._clock() + seconds

    def check(self) -> None:
        if self.end <= self._store._clock():
            msg = f"the lease of {self._seconds} s has ended: nobody renewed it. Make another."
            raise DistributedError(msg, code=StatusCode.NOT_FOUND)

    def renew(self) -> None:
        with self._store._lock:
            self.check()
            self.end = self._store._clock() + self._seconds

    def revoke(self) -> None:
        with self._store._lock:
            self.end = float("-inf")
            self._store.expire()


def _own(lease: Lease | None) -> _MemoryLease | None:
    assert lease is None or isinstance(lease, _MemoryLease)
    return lease
