"""One process's part in a job over a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from devrt._support import log
from devrt.distributed import faults, rules
from devrt.distributed.faults import refused
from devrt.distributed.keyspace import Keyspace, normalised, not_found
from devrt.distributed.link import BEATS
from devrt.distributed.security import Bounds
from devrt.distributed.session import Session
from devrt.distributed.store import Entry, Store
from devrt.distributed.stored import job as keys
from devrt.distributed.stored.barriers import Barriers
from devrt.distributed.stored.board import Board, Peer
from devrt.errors import DevrtError, StatusCode

__all__ = ["StoredSession"]

_BOUNDS = Bounds()  # those of the embedded service, so that a job may change its engine
_ALIVE = frozenset({"connected", "leaving"})


class StoredSession(Session):
    """Keys, barriers and signs of life of one process, in a store that all reach.

    Parameters
    ----------
    store
        The job's own; it is closed with the session.
    process
        The number of this process.
    incarnation
        What tells this process from an earlier one with its number.
    heartbeat
        Seconds without the store after which it counts as lost.
    on_loss
        Called once, on a thread of its own, with the error when a process or the store is lost.
    """

    def __init__(
        self,
        store: Store,
        process: int,
        incarnation: int,
        heartbeat: float,
        on_loss: Callable[[Exception], Any] | None,
    ) -> None:
        self._store = store
        self._process = process
        self._incarnation = incarnation
        self._heartbeat = heartbeat
        self._on_loss = on_loss
        self._board = Board(store, self._changed)
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._is_joined = False
        self._was_reported = False
        self._beating = threading.Event()
        self._phase = "connected"

    def join(self, seconds: float, size: int | None = None) -> None:
        """Join; return when every process has. A job of another size is refused."""
        if self._is_joined:
            return
        if self._closed.is_set():
            words = "connect() was called after shutdown(). Make another client."
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        deadline = time.monotonic() + seconds
        self._board.begin()
        job = self._job = self._found(seconds, deadline)
        rules.check_size(self._process, size, job.size)
        rules.check_number(self._process, job.size)
        self._lease = self._store.lease(job.heartbeat)
        self._job_lease = self._store.shared_lease(job.lease, job.heartbeat)
        self._keys = Keyspace(self._store, lease=self._job_lease)
        self._barriers = Barriers(self._store, self._board, self._process, job, self._job_lease)
        self._register()
        self._beating = threading.Event()
        beat = threading.Thread(
            target=self._beat, args=(self._beating,), name="devrt-heartbeat", daemon=True
        )
        beat.start()
        try:
            self._form(min(deadline, time.monotonic() + job.register), min(seconds, job.register))
        except BaseException:
            self._release()
            raise
        self._is_joined = True
        self._changed()  # a loss may have come before
        log.info("process %d is connected: all processes are there", self._process)

    def leave(self, seconds: float) -> None:
        """Leave when every process that is alive does, and close. Idempotent."""
        with self._lock:
            was_joined, self._is_joined = self._is_joined, False
        try:
            if was_joined and self._board.ended is None:
                self._leave(min(seconds, self._job.shutdown))
        except DevrtError:
            if self._board.ended is None:  # of that it was reported before
                raise
        finally:
            if was_joined:
                self._release()
            self.close()

    def close(self) -> None:
        """End without a word to the others. Idempotent."""
        self._is_joined = False
        words = "this client was shut down."
        self._closed.set()
        self._beating.set()
        self._board.end(refused(StatusCode.CANCELLED, words))
        self._board.close()
        self._store.close()

    def awaited(self, key: str, seconds: float) -> bytes:
        """Return a key's value, once it is there."""
        rules.check_key(key, _BOUNDS.key_bytes)
        with self._calling(
            f"waiting for key {normalised(key)!r}", f"after key {normalised(key)!r}"
        ):
            value = self._keys.get(key)
            return self._awaited(key, seconds) if value is None else value

    def get(self, key: str) -> bytes:
        """Return a key's value; ``NOT_FOUND`` if it is not there."""
        rules.check_key(key, _BOUNDS.key_bytes)
        with self._calling():
            value = self._keys.get(key)
        if value is None:
            raise not_found(key)
        return value

    def set(self, key: str, value: bytes, overwrite: bool) -> None:
        """Set a key; without ``overwrite`` one that is there is ``ALREADY_EXISTS``."""
        rules.check_key(key, _BOUNDS.key_bytes)
        rules.check_length(len(key) + len(value), _BOUNDS.message_bytes)
        with self._calling():
            self._keys.set(key, value, overwrite)

    def directory(self, key: str) -> list[tuple[str, bytes]]:
        """Return the keys below one and their values, by key."""
        with self._calling():
            return self._keys.directory(key)

    def delete(self, key: str) -> None:
        """Delete a key and every key below it."""
        with self._calling():
            self._keys.delete(key)

    def increment(self, key: str, by: int) -> int:
        """Add to a key's number, which begins at 0; return the sum."""
        rules.check_key(key, _BOUNDS.key_bytes)
        with self._calling():
            return self._keys.increment(key, by)

    def barrier(self, name: str, seconds: float, processes: Sequence[int]) -> None:
        """Wait until every process, or every one given, has come."""
        rules.check_key(name, _BOUNDS.key_bytes)
        with self._calling(f"waiting at barrier {name!r}", f"after barrier {name!r}"):
            self._barriers.wait(name, seconds, processes)

    def alive(self, processes: Sequence[int]) -> dict[int, int]:
        """Return those of some processes that are alive, and the incarnation of each."""
        with self._calling():
            for number in processes:
                rules.check_number(number, self._job.size)
        board = self._board
        with board.changed:
            return {
                number: board.alive[number].incarnation
                for number in sorted(processes or range(self._job.size))
                if number in board.alive and board.alive[number].state in _ALIVE
            }

    def _found(self, seconds: float, deadline: float) -> keys.Job:
        """Return the job, once somebody has begun it."""
        self._board.wait(lambda: self._board.job is not None, deadline)
        job = self._board.job
        if isinstance(job, DevrtError):
            raise job.fresh()
        if job is None:
            words = (
                f"nobody began a job there within {seconds:g} s. Look whether the address is that "
                "of the process that calls get_distributed_runtime_service, and whether it runs."
            )
            raise refused(StatusCode.DEADLINE_EXCEEDED, words)
        return job

    def _register(self) -> None:
        me, number = keys.node(self._process), self._process
        state = Peer(self._incarnation, "registering").encoded()
        expected = {me: 0} if self._job.recoverable else {me: 0, keys.lost(number): 0}
        if self._store.transaction(expected, {me: state}, self._lease):
            self._note("registering")
            return
        self._lease.revoke()
        if self._store.get(me) is None and self._store.get(keys.lost(number)) is not None:
            raise rules.was_lost(number)
        raise rules.number_taken(number, self._board.phases([number])[number])

    def _form(self, deadline: float, seconds: float) -> None:
        """Wait until all have come; the last that comes tells it."""
        board = self._board
        if self._store.count(keys.NODES) == self._job.size:
            found = self._store.range(keys.NODES)
            if not any(b'"leaving"' in (one.value or b"") for one in found):
                self._store.transaction({keys.FORMED: 0}, {keys.FORMED: b""}, self._job_lease)
        board.wait(lambda: board.is_formed or board.ended, deadline)
        if board.ended is not None:
            raise board.ended.fresh()
        if not board.is_formed:
            with board.changed:
                missing = sorted(set(range(self._job.size)) - set(board.alive))
                came = len(board.alive)
            what = "the registration of the cluster"
            raise faults.missing(what, seconds, board.phases(missing), came)
        self._become("connected")
        self._note("connected")

    def _become(self, state: str) -> None:
        value = Peer(self._incarnation, state).encoded()
        self._store.set(keys.node(self._process), value, self._lease)

    def _leave(self, seconds: float) -> None:
        board, me = self._board, self._process
        self._become("leaving")

        def others() -> list[int]:
            alive = board.alive.items()
            return sorted(n for n, peer in alive if n != me and peer.state != "leaving")

        if not board.wait(lambda: board.ended or not others(), time.monotonic() + seconds):
            missing = others()
            came = self._job.size - len(missing)
            what = "the shutdown of the cluster"
            raise faults.missing(what, seconds, board.phases(missing), came)
        if board.ended is None:
            self._store.delete(keys.FORMED)  # all may come again

    def _release(self) -> None:
        """Give the number back."""
        self._beating.set()
        try:
            self._lease.revoke()
        except DevrtError as error:
            log.info("process %d: its lease ends by itself: %s", self._process, error)

    def _awaited(self, key: str, seconds: float) -> bytes:
        board = self._board
        found: list[bytes] = []

        def take(entry: Entry) -> None:
            with board.changed:
                if entry.value is not None:
                    found.append(entry.value)
                board.changed.notify_all()

        watch = self._store.watch(self._keys.stored(key), take)
        try:
            value = self._keys.get(key)  # it may have been set before the watch began
            if value is not None:
                return value
            deadline = time.monotonic() + seconds
            board.wait(lambda: found or board.ended or self._is_hit(), deadline)
        finally:
            watch.close()
        if found:
            return found[0]
        if board.ended is None and self._is_hit():
            raise self._loss()
        words = f"key {normalised(key)!r} was not set within {seconds:g} s."
        raise (board.ended or refused(StatusCode.DEADLINE_EXCEEDED, words)).fresh()

    def _is_hit(self) -> bool:
        """Return whether a loss ends what this process waits for of all."""
        return bool(self._board.lost) and not self._job.recoverable

    def _loss(self) -> DevrtError:
        why = f"gave no sign for {self._job.heartbeat:g} s"
        return faults.lost("the job", self._board.phases(sorted(self._board.lost)), why)

    def _beat(self, ended: threading.Event) -> None:
        """Renew the leases until the end, or until the store is silent for too long."""
        renewed = time.monotonic()
        written = ""
        heartbeat = min(self._heartbeat, self._job.heartbeat)
        while not ended.wait(heartbeat / BEATS):
            try:
                self._lease.renew()
                self._job_lease.renew()
                if self._phase != written:
                    written = self._phase
                    self._note(written)
                renewed = time.monotonic()
            except DevrtError as error:
                if error.code is StatusCode.NOT_FOUND and not ended.is_set():
                    self._expire()
                    return
                if time.monotonic() - renewed >= heartbeat:
                    self._board.end(error)
                    self._store.close()  # ends the calls that try again
                    return

    def _expire(self) -> None:
        why = f"gave no sign for {self._job.heartbeat:g} s"
        self._board.end(faults.lost("the job", {self._process: self._phase}, why))

    def _noted_loss(self) -> DevrtError:
        """Return the error of a loss, and note that who is lost may not come again."""
        error = self._loss()
        for number in sorted(self._board.lost):
            key = keys.lost(number)
            self._store.transaction({key: 0}, {key: b""}, self._job_lease)
        return error

    def _note(self, phase: str) -> None:
        self._store.set(keys.phase(self._process), phase.encode(), self._job_lease)

    def _changed(self) -> None:
        """Report the first loss, on another thread: this one is the store's."""
        with self._lock:
            is_over = self._board.ended is not None or self._board.lost
            if not is_over or self._was_reported or not self._is_joined:
                return
            if self._board.ended is None and not self._is_hit():
                return
            self._was_reported = True
        threading.Thread(target=self._report, name="devrt-loss", daemon=True).start()

    def _report(self) -> None:
        error = self._board.ended
        try:
            error = error or self._noted_loss()
        except DevrtError as caught:
            if self._closed.is_set():
                return  # this process shut down meanwhile
            error = caught
        log.info("process %d: %s", self._process, error)
        if self._on_loss is not None:
            self._on_loss(error)

    @contextmanager
    def _calling(self, phase: str = "running", after: str | None = None) -> Iterator[None]:
        """Check that a call may be made; where the job ended meanwhile, its error is that."""
        if not self._is_joined:
            words = "a call was made before connect(), or after shutdown()."
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        ended = self._board.ended
        if ended is not None:
            raise ended.fresh()
        if after is not None or self._phase == "connected":
            self._phase = phase
        try:
            yield
        except DevrtError as error:
            ended = self._board.ended
            if ended is not None and error.code is not ended.code:
                raise ended.fresh() from error
            raise
        if after is not None:
            self._phase = after
