"""What one process sees of its job: the job's keys, as they change."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from devrt._support.record import record
from devrt.distributed.faults import refused
from devrt.distributed.store import Entry, Store, Watch
from devrt.distributed.stored.job import FORMED, JOB, STATE, Job
from devrt.distributed.stored.job import phase as phase_key
from devrt.errors import DevrtError, StatusCode

__all__ = ["Board", "Peer"]


@record(frozen=True, slots=True)
class Peer:
    """A process that is alive.

    Parameters
    ----------
    incarnation
        What tells it from an earlier one with its number.
    state
        ``"registering"``, ``"connected"`` or ``"leaving"``.
    """

    incarnation: int
    state: str

    def encoded(self) -> bytes:
        """Return it as it is kept."""
        return json.dumps({"incarnation": self.incarnation, "state": self.state}).encode()


class Board:
    """The processes that are alive, lost or gone, and the uses of barriers that end.

    The store is never called while the board is locked: what the store calls locks the board.

    Parameters
    ----------
    store
        Where the job's keys are.
    on_change
        Called without the lock after a process is lost or the job has ended.
    """

    def __init__(self, store: Store, on_change: Callable[[], object]) -> None:
        self._store = store
        self._on_change = on_change
        self._versions: dict[str, int] = {}  # of keys of which there are few
        self._outcomes: dict[str, dict[str, Entry]] = {}  # by barrier that is waited at, and use
        self._watch: Watch | None = None
        self.changed = threading.Condition()
        self.job: Job | DevrtError | None = None
        self.is_formed = False
        self.alive: dict[int, Peer] = {}
        self.lost: set[int] = set()
        self.left: set[int] = set()
        self.ended: DevrtError | None = None

    def begin(self) -> None:
        """Watch the job's keys, and read those that are there."""
        if self._watch is None:
            self._store.get(JOB)  # where no store answers, this says so
            self._watch = self._store.watch(STATE, self._take, prefix=True)
            for entry in self._store.range(STATE):
                self._take(entry)

    def end(self, error: DevrtError | None = None) -> None:
        """Watch no more; with an error, which those who wait get. Idempotent."""
        with self.changed:
            self.ended = self.ended or error
            self.changed.notify_all()
        if error is not None:
            self._on_change()

    def close(self) -> None:
        """Watch no more. Idempotent."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def wait(self, is_over: Callable[[], object], deadline: float) -> bool:
        """Wait until something is so, or the time has come; return whether it is."""
        with self.changed:
            left = max(0.0, deadline - time.monotonic())
            return bool(self.changed.wait_for(is_over, left))

    def phases(self, processes: Iterable[int]) -> dict[int, str]:
        """Return what some processes did last."""
        numbers = list(processes)
        found = {n: self._store.get(phase_key(n)) for n in numbers[:32]}  # as many as are shown
        unknown = "never registered"
        return {n: _text(found[n]) if found.get(n) else unknown for n in numbers}

    def listen(self, barrier: str) -> dict[str, Entry]:
        """Return the ends of a barrier's uses, which are noted from now on."""
        with self.changed:
            return self._outcomes.setdefault(barrier, {})

    def forget(self, barrier: str) -> None:
        """Note a barrier's ends no more."""
        with self.changed:
            self._outcomes.pop(barrier, None)

    def _take(self, entry: Entry) -> None:
        """Note a change; of what was read before it was seen, the later counts."""
        with self.changed:
            kind, _, rest = entry.key.removeprefix(STATE).partition("/")
            if kind == "outcomes":
                is_news = self._take_outcome(entry, rest)
            elif entry.version > self._versions.get(entry.key, 0):
                self._versions[entry.key] = entry.version
                is_news = self._take_state(entry, kind, rest)
            else:
                is_news = False
            self.changed.notify_all()
        if is_news:
            self._on_change()

    def _take_outcome(self, entry: Entry, use: str) -> bool:
        if entry.value is not None:
            listened = self._outcomes.get(json.loads(entry.value)["name"])
            if listened is not None:
                listened[use] = entry
        return False

    def _take_state(self, entry: Entry, kind: str, rest: str) -> bool:
        if entry.key == JOB:
            return self._take_job(entry.value)
        if entry.key == FORMED:
            self.is_formed = entry.value is not None
        elif kind == "nodes":
            return self._take_node(int(rest), entry.value)
        elif kind == "lost" and entry.value is not None:
            self.lost.add(int(rest))
            return True
        return False

    def _take_job(self, value: bytes | None) -> bool:
        if value is not None:
            try:
                self.job = Job.decoded(value)
            except DevrtError as error:
                self.job = error
            return False
        self.job = None
        words = "the job has ended: its service was shut down, or somebody deleted its keys."
        self.ended = self.ended or refused(StatusCode.CANCELLED, words)
        return True

    def _take_node(self, number: int, value: bytes | None) -> bool:
        if value is not None:
            self.alive[number] = Peer(**json.loads(value))
            self.lost.discard(number)
            self.left.discard(number)
            return False
        former = self.alive.pop(number, None)
        if former is None or former.state == "registering":
            return False
        if former.state == "leaving":
            self.left.add(number)
            return False
        self.lost.add(number)
        return True


def _text(entry: Any) -> str:
    return str(entry.value.decode())
