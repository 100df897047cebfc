"""What the coordination service answers to each call of its protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from devrt.distributed import rules
from devrt.distributed.cluster import Cluster
from devrt.distributed.faults import refused
from devrt.distributed.journal import Journal
from devrt.distributed.keyspace import Keyspace, normalised, not_found
from devrt.distributed.memory_store import MemoryStore
from devrt.distributed.protocol.messages import message
from devrt.distributed.quota import Quota, Rate
from devrt.distributed.security import Bounds
from devrt.errors import StatusCode

__all__ = ["Calls"]

_REGISTERING = -1  # no process yet: all that register are counted together
_DIGITS = 20  # of a number of 64 bits

_STATES = {"registering": 1, "absent": 1, "left": 2, "connected": 3, "leaving": 3, "lost": 4}


class Calls:
    """The calls, under the protocol's names; all run in the service's one thread.

    Parameters
    ----------
    cluster
        The processes.
    incarnation
        The number that tells this service from one that is started after it.
    bounds
        What one process may take up.
    """

    def __init__(self, cluster: Cluster, incarnation: int, bounds: Bounds) -> None:
        self._cluster = cluster
        self._store = MemoryStore()
        self._keys = Keyspace(self._store)
        self._quota = Quota(self._store, bounds)
        self._rate = Rate(bounds.calls_per_second)
        self._incarnation = incarnation
        self._bounds = bounds
        self._waiting: dict[Hashable, int] = {}  # no zeros: ids that are none leave nothing
        self._open: set[asyncio.Future[Any]] = set()
        self._journal: Journal | None = None

    def carry_on(self, journal: Journal) -> None:
        """Take the job that a journal has, and write down what it becomes."""
        for key, value in journal.entries():
            self._store.set(key, value)
        self._store.before_change = journal.note_keys
        self._journal = journal

    def close(self) -> None:
        """End every call that waits."""
        for future in list(self._open):
            if not future.done():
                words = "the coordination service is shutting down."
                future.set_exception(refused(StatusCode.CANCELLED, words))

    async def RegisterTask(self, request: Any) -> Any:  # noqa: N802
        """Take a process in; answers when all are there."""
        number = request.source_task_id
        self._rate.check(_REGISTERING)
        rules.check_size(number, request.num_processes, len(self._cluster.nodes))
        # Counted apart: who registers under another's number takes none of that one's calls.
        with self._wait(("registration", number)) as (future, done):
            self._cluster.register(number, request.incarnation, done)
            try:
                await future
            except asyncio.CancelledError:
                self._cluster.withdraw(number)
                raise
        if self._journal is not None:
            self._journal.check()
        return message("RegisterTaskResponse")(service_incarnation=self._incarnation)

    async def Heartbeat(self, request: Any) -> Any:  # noqa: N802
        """Note that a process is alive."""
        self._same_service(request)
        self._cluster.heartbeat(request.source_task_id, request.incarnation)
        return message("HeartbeatResponse")(service_incarnation=self._incarnation)

    async def ShutdownTask(self, request: Any) -> Any:  # noqa: N802
        """Let a process leave; answers when the others leave too."""
        number = request.source_task_id
        if self._cluster.has_left(number, request.incarnations.task_incarnation):
            return message("ShutdownTaskResponse")()  # the answer was lost with a service
        number = self._caller(request, number, leaving=True)
        given = request.shutdown_timeout_in_ms
        with self._wait(number) as (future, done):
            self._cluster.leave(number, done, given / 1000 if given > 0 else None)
            await future
        return message("ShutdownTaskResponse")()

    async def PollForError(self, request: Any) -> Any:  # noqa: N802
        """Answer, with an error, when a process is lost."""
        number = self._caller(request, request.source_task_id)
        with self._wait(number) as (future, done):
            key = self._cluster.until_loss(number, done)
            try:
                await future
            finally:
                self._cluster.forget(key)
        return message("PollForErrorResponse")()

    async def WatchTasks(self, request: Any) -> Any:  # noqa: N802
        """Answer with the states of all processes when they are others than the caller knows."""
        number = self._caller(request)
        with self._wait(number) as (future, _):
            while self._cluster.version <= request.version_number:
                await asyncio.wait([future], timeout=0.05)
                if future.done():
                    future.result()  # the service ends
        info = message("TaskInfo")
        states = [
            info(
                task_id=node.number,
                state=_STATES[node.state],
                error_code=0 if node.error is None else int(node.error.code),
                error_message=str(node.error or ""),
                incarnation=node.incarnation,
            )
            for node in self._cluster.nodes
        ]
        return message("WatchTasksResponse")(
            task_state=states, version_number=self._cluster.version
        )

    async def GetAliveTasks(self, request: Any) -> Any:  # noqa: N802
        """Answer which processes are alive."""
        self._caller(request)
        alive = self._cluster.alive(request.task_ids)
        return message("GetAliveTasksResponse")(
            alive_task_ids=[node.number for node in alive],
            incarnations=[node.incarnation for node in alive],
        )

    async def InsertKeyValue(self, request: Any) -> Any:  # noqa: N802
        """Set a key."""
        number = self._caller(request)
        key, value = self._key(request.kv.key), request.kv.value
        self._quota.check(number, self._keys.stored(key), len(value))
        self._keys.set(key, value, request.allow_overwrite)
        return message("InsertKeyValueResponse")()

    async def TryGetKeyValue(self, request: Any) -> Any:  # noqa: N802
        """Answer with a key's value, if it is there."""
        self._caller(request)
        value = self._keys.get(self._key(request.key))
        if value is None:
            raise not_found(request.key)
        entry = message("KeyValueEntry")(key=request.key, value=value)
        return message("TryGetKeyValueResponse")(kv=entry)

    async def GetKeyValue(self, request: Any) -> Any:  # noqa: N802
        """Answer with a key's value, once it is there."""
        number = self._caller(request)
        value = self._keys.get(self._key(request.key))
        if value is None:
            value = await self._awaited(number, request.key)
        entry = message("KeyValueEntry")(key=request.key, value=value)
        return message("GetKeyValueResponse")(kv=entry)

    async def IncrementKeyValue(self, request: Any) -> Any:  # noqa: N802
        """Add to a key's number."""
        number = self._caller(request)
        key = self._key(request.key)
        self._quota.check(number, self._keys.stored(key), _DIGITS)
        total = self._keys.increment(key, request.increment)
        entry = message("KeyValueEntry")(key=request.key, value=str(total).encode())
        return message("IncrementKeyValueResponse")(kv=entry)

    async def GetKeyValueDir(self, request: Any) -> Any:  # noqa: N802
        """Answer with the keys below one."""
        self._caller(request)
        key = request.directory_key
        entry = message("KeyValueEntry")
        rows = [entry(key=name, value=value) for name, value in self._keys.directory(key)]
        return message("GetKeyValueDirResponse")(directory_key=key, kv=rows)

    async def DeleteKeyValue(self, request: Any) -> Any:  # noqa: N802
        """Delete a key and those below it."""
        self._caller(request)
        names = [self._keys.stored(key) for key, _ in self._keys.directory(request.key)]
        if normalised(request.key):
            names.append(self._keys.stored(request.key))
        self._store.transaction({}, dict.fromkeys(names))  # all or, with a full disk, none
        return message("DeleteKeyValueResponse")()

    async def Barrier(self, request: Any) -> Any:  # noqa: N802
        """Let a process wait at a barrier."""
        number = self._caller(request, request.source_task_id)
        name = self._key(request.barrier_id)
        seconds = max(0, request.barrier_timeout_in_ms) / 1000
        with self._wait(number) as (future, done):
            self._cluster.arrive(name, number, seconds, request.task_ids, done)
            try:
                await future
            except asyncio.CancelledError:  # its process is gone, was interrupted, or calls again
                self._cluster.depart(name, number, done)
                raise
        # Clients of jaxlib's count the uses of a barrier for its service; here nothing needs them.
        return message("BarrierResponse")(counter=request.counter)

    async def CancelBarrier(self, request: Any) -> Any:  # noqa: N802
        """End a barrier for all."""
        number = self._caller(request, request.source_task_id)
        self._cluster.cancel(request.barrier_id, number)
        return message("CancelBarrierResponse")()

    def _caller(self, request: Any, number: int | None = None, leaving: bool = False) -> int:
        """Return which process calls; it must be the one that registered."""
        self._same_service(request)
        # jaxlib's client leaves out its number in some calls; the incarnation is always there.
        incarnation = request.incarnations.task_incarnation
        if number is None:
            number = self._cluster.number_of(incarnation)
        node = self._cluster.node(number, incarnation)
        if node.phase == "connected" and not leaving:
            node.phase = "running"
        self._rate.check(node.number)
        return node.number

    def _same_service(self, request: Any) -> None:
        given = request.incarnations.service_incarnation
        if given not in {0, self._incarnation}:
            words = "the coordination service was started again since this process connected."
            raise refused(StatusCode.ABORTED, words)

    def _key(self, key: str) -> str:
        rules.check_key(key, self._bounds.key_bytes)
        return key

    async def _awaited(self, number: int, key: str) -> bytes:
        node = self._cluster.nodes[number]
        node.phase = f"waiting for key {normalised(key)!r}"
        with self._wait(number) as (future, done):
            loss = self._cluster.until_loss(number, done)
            watch = self._store.watch(
                self._keys.stored(key), lambda entry: _give(future, entry.value)
            )
            try:
                value: bytes = await future
            finally:
                watch.close()
                self._cluster.forget(loss)
        node.phase = f"after key {normalised(key)!r}"
        return value

    @contextmanager
    def _wait(self, who: Hashable) -> Iterator[tuple[asyncio.Future[Any], Callable[[Any], None]]]:
        """Count a call that waits; give its future, and the function that ends it."""
        waiting = self._waiting.get(who, 0)
        if waiting >= self._bounds.waiting_calls:
            words = f"{waiting} calls of one process wait already."
            raise refused(StatusCode.RESOURCE_EXHAUSTED, words)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[who] = waiting + 1
        self._open.add(future)
        try:
            yield future, lambda error: _end(future, error)
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]
            self._open.discard(future)


def _end(future: asyncio.Future[Any], error: Exception | None) -> None:
    if not future.done():
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)
            future.exception()  # the call may have ended meanwhile


def _give(future: asyncio.Future[Any], value: bytes | None) -> None:
    if value is not None and not future.done():
        future.set_result(value)
