"""Barriers over a store: each use has a key, which the last that comes, or who gives up, ends.

Who comes writes a key of its own and counts those of all. A transaction on the use's key decides
how it ends, so that all see the same end. The keys of a use are deleted with it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock

from devrt.distributed import faults, rules
from devrt.distributed.store import Entry, Lease, Store
from devrt.distributed.stored import job as keys
from devrt.distributed.stored.board import Board
from devrt.errors import DevrtError, StatusCode

__all__ = ["Barriers"]

_GRACE = 15.0  # for an end that another process has written to be seen


class Barriers:
    """The barriers that one process waits at.

    Parameters
    ----------
    store, board
        The job's keys, and what is seen of them.
    process
        The number of this process.
    job
        Its job.
    lease
        Of the job's keys.
    """

    def __init__(
        self,
        store: Store,
        board: Board,
        process: int,
        job: keys.Job,
        lease: Lease,
    ) -> None:
        self._store = store
        self._board = board
        self._process = process
        self._job = job
        self._lease = lease
        self._lock = Lock()
        self._listeners: dict[str, int] = {}

    def wait(self, name: str, seconds: float, processes: Sequence[int]) -> None:
        """Wait until every process, or every one given, has come."""
        expected = set(processes) or set(range(self._job.size))
        rules.check_expected(name, self._process, expected, self._job.size)
        deadline = time.monotonic() + seconds
        with self._listening(name) as ends:
            while True:
                use = self._begun(name, expected)
                end = self._ended(name, use, expected, ends, seconds, deadline)
                if end is not None:
                    break
        error = _error(end)
        if error is not None:
            raise error

    def _ended(
        self,
        name: str,
        use: Entry,
        expected: set[int],
        ends: dict[str, Entry],
        seconds: float,
        deadline: float,
    ) -> Entry | None:
        """Come to a use of a barrier and return its end; None if it was over before."""
        identity = _identity(use)
        arrived = keys.arrival(identity, self._process)
        came = self._store.set(arrived, b"", self._lease)
        if self._store.count(keys.arrival(identity)) >= len(expected):
            self._finish(name, use, None)
        board = self._board
        try:
            board.wait(
                lambda: (
                    identity in ends or board.ended or expected & (board.lost | self._leaving())
                ),
                deadline,
            )
        except BaseException:  # Ctrl-C: this process may not come again
            self._store.delete(arrived)
            raise
        if identity not in ends and board.ended is None:
            self._finish(name, use, self._failure(name, identity, expected, seconds))
            board.wait(lambda: identity in ends or board.ended, time.monotonic() + _GRACE)
        end = ends.get(identity)
        if end is None:
            words = f"barrier {name!r} has ended, and how was not seen within {_GRACE:g} s."
            raise (board.ended or faults.refused(StatusCode.UNAVAILABLE, words)).fresh()
        if end.version < came:
            self._store.delete(arrived)
            return None
        return end

    def _begun(self, name: str, expected: set[int]) -> Entry:
        """Return the use of a barrier that is under way; begin one where there is none."""
        key = keys.barrier(name)
        while True:
            found = self._store.get(key)
            if found is not None:
                there = set(json.loads(found.value or b"")["expected"]) or set(
                    range(self._job.size)
                )
                if there != expected:
                    raise rules.barrier_of_others(name, there, self._process, expected)
                return found
            is_everyone = len(expected) == self._job.size
            use = {"use": secrets.token_hex(8), "expected": [] if is_everyone else sorted(expected)}
            self._store.transaction({key: 0}, {key: json.dumps(use).encode()}, self._lease)

    def _finish(self, name: str, use: Entry, error: DevrtError | None) -> None:
        """End a use, where nobody else has; delete its keys."""
        identity, key = _identity(use), keys.barrier(name)
        end: dict[str, object] = {"name": name}
        if error is not None:
            details = faults.to_wire(error).decode()
            end |= {"code": int(error.code), "message": str(error), "details": details}
        changes = {key: None, keys.outcome(identity): json.dumps(end).encode()}
        if self._store.transaction({key: use.version}, changes, self._lease):
            self._store.delete(keys.outcome(identity))  # the watches have seen it, or will
            self._store.delete(keys.arrival(identity), prefix=True)

    def _failure(self, name: str, identity: str, expected: set[int], seconds: float) -> DevrtError:
        """Return why a use fails: who is lost or leaves, else who has not come."""
        what = f"barrier {name!r}"
        with self._board.changed:
            lost, leaving = expected & self._board.lost, expected & self._leaving()
        gone = lost or leaving
        if gone:
            why = f"gave no sign for {self._job.heartbeat:g} s" if lost else "shut down"
            return faults.lost(what, self._board.phases(sorted(gone)), why)
        came = {int(one.key.rpartition("/")[2]) for one in self._arrivals(identity)}
        missing = sorted(expected - came)
        return faults.missing(what, seconds, self._board.phases(missing), len(came))

    def _arrivals(self, identity: str) -> list[Entry]:
        return self._store.range(keys.arrival(identity))

    def _leaving(self) -> set[int]:
        board = self._board
        return board.left | {n for n, peer in board.alive.items() if peer.state == "leaving"}

    @contextmanager
    def _listening(self, name: str) -> Iterator[dict[str, Entry]]:
        with self._lock:
            ends = self._board.listen(name)
            self._listeners[name] = self._listeners.get(name, 0) + 1
        try:
            yield ends
        finally:
            with self._lock:
                self._listeners[name] -= 1
                if not self._listeners[name]:
                    del self._listeners[name]
                    self._board.forget(name)


def _identity(use: Entry) -> str:
    return str(json.loads(use.value or b"")["use"])


def _error(end: Entry) -> DevrtError | None:
    found = json.loads(end.value or b"")
    if "code" not in found:
        return None
    return faults.from_wire(found["code"], found["message"], found["details"].encode())
