"""Groups of GPUs that span the processes of a job: how these meet, and what a lost one ends.

The vendor's library connects ranks by an id that one process makes. The others get it through the
job's keys, once all have come: from then on the library waits, which has no deadline of its own.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from devrt._support.losses import lost_of
from devrt._support.rounds import next_round
from devrt.errors import (
    DeadlineExceededError,
    DevrtError,
    DistributedError,
    ForkedError,
    InvalidArgumentError,
)

if TYPE_CHECKING:
    from devrt.contract import Device, DistributedRuntimeClient

__all__ = ["GroupSpan", "join", "remember_job"]

_GLANCE = 0.005  # seconds between looks at what a process leaves under way at its end
_PAUSE = 0.5  # seconds that a collective may wait before the job is looked at, and between looks
_LAST = 10.0  # seconds that the process's end waits for what is under way
_jobs: weakref.WeakKeyDictionary[Any, tuple[DistributedRuntimeClient, int]]
_jobs = weakref.WeakKeyDictionary()
"""The job of a client, and the process that joined it."""
_spans: weakref.WeakSet[GroupSpan] = weakref.WeakSet()


def remember_job(client: Any, store: DistributedRuntimeClient) -> None:
    """Keep the job of a client, for the groups that span its processes."""
    _jobs[client] = store, os.getpid()


def join(
    native: Any,
    client: Any,
    devices: Sequence[Device],
    source: tuple[str, str],
    milliseconds: int,
) -> tuple[Any, GroupSpan]:
    """Connect devices of this process with those of others, each of which calls this.

    Parameters
    ----------
    native
        The vendor's native module.
    client
        Whose devices they are.
    devices
        The device of each rank.
    source
        The path of the vendor's library, and what the names of its functions begin with.
    milliseconds
        How long to wait for the other processes.

    Returns
    -------
    tuple
        The native group, and what it knows of the other processes.
    """
    store, me = _store_of(client, devices), client.process_index()
    ranks = tuple(i for i, device in enumerate(devices) if device.process_index == me)
    local = [devices[rank] for rank in ranks]
    processes = sorted({device.process_index for device in devices})
    prefix = _prefix(store, client.platform, devices)
    key = f"{prefix}/id"
    if devices[0].process_index == me:
        # Overwritten, where the rounds of a store cannot be counted.
        _call(store.key_value_set, key, native._new_group_id(local[0], *source).hex(), True)
    _meet(store, prefix, milliseconds, processes)
    found = _call(store.blocking_key_value_get, key, milliseconds)
    text = found.decode() if isinstance(found, bytes) else str(found)
    group = native._connect_across(local, *source, bytes.fromhex(text), len(devices), list(ranks))
    return group, GroupSpan(group, ranks, store, processes)


class GroupSpan:
    """What a process knows of the others of a group: which ranks are its own, and who is lost.

    Parameters
    ----------
    group
        The native group.
    ranks
        Those of this process.
    store
        The connection to the job.
    processes
        Those that have a rank.
    """

    def __init__(
        self,
        group: Any,
        ranks: tuple[int, ...],
        store: DistributedRuntimeClient,
        processes: Sequence[int],
    ) -> None:
        self.ranks = ranks
        self._group = group
        self._store = store
        self._processes = processes
        self._lock = threading.Lock()
        self._is_watched = False
        _spans.add(self)

    def end(self, deadline: float) -> None:
        """Wait until nothing is under way, and break off what is so at a deadline."""
        while self._group.busy_seconds() is not None:
            if time.monotonic() > deadline:
                self._group.break_off("the process ends, and the other processes did not come.")
            time.sleep(_GLANCE)

    def watch(self) -> None:
        """Have what is under way fail once the job knows that a process is lost.

        A thread looks, for as long as something is under way.
        """
        with self._lock:
            if self._is_watched or not hasattr(self._store, "get_live_nodes"):
                return
            self._is_watched = True
        threading.Thread(target=self._look, name="devrt-group-losses", daemon=True).start()

    def _look(self) -> None:
        while True:
            time.sleep(_PAUSE)
            with self._lock:
                waited = self._group.busy_seconds()
                if waited is None:
                    self._is_watched = False
                    return
            if waited > _PAUSE and (lost := lost_of(self._store, self._processes)):
                self._group.break_off(_text_of(lost))


@atexit.register
def _end_all() -> None:
    """Have the process end: the client would wait for what others never come for."""
    deadline = time.monotonic() + _LAST
    for span in list(_spans):
        span.end(deadline)


def _text_of(lost: Sequence[int]) -> str:
    names = ", ".join(map(str, lost))
    return (
        "the job has lost processes whose ranks are waited for. "
        f"Lost: process{'es' * (len(lost) > 1)} {names}."
    )


def _store_of(client: Any, devices: Sequence[Device]) -> DistributedRuntimeClient:
    store, process = _jobs.get(client, (None, 0))
    if store is not None and process != os.getpid():
        msg = (
            f"collectives failed: this process was forked from process {process}, and is none of "
            "the job. Start processes with multiprocessing's 'spawn' method."
        )
        raise ForkedError(msg, operation="collectives", parent=process)
    if store is not None:
        return store
    me = client.process_index()
    others = ", ".join(str(device) for device in devices if device.process_index != me)
    msg = (
        f"collectives failed: {others} are of other processes, and the client was made without a "
        "job that would find them. Call devrt.distributed.initialize() before the first use of "
        "devices, or make the client with distributed_client."
    )
    raise InvalidArgumentError(msg, operation="collectives", platform=client.platform)


def _prefix(store: DistributedRuntimeClient, platform: str, devices: Sequence[Device]) -> str:
    ids = ",".join(str(device.id) for device in devices)
    name = f"{platform}/{hashlib.blake2b(ids.encode(), digest_size=16).hexdigest()}"
    return f"devrt/gpu/groups/{name}/{next_round(store, name)}"


def _meet(
    store: DistributedRuntimeClient, prefix: str, milliseconds: int, processes: Sequence[int]
) -> None:
    try:
        _call(store.wait_at_barrier, prefix, milliseconds, list(processes))
    except DeadlineExceededError as error:
        missing = tuple(getattr(error, "missing", ()))
        names = ", ".join(map(str, missing)) or "one"
        msg = (
            f"collectives waited {milliseconds / 1000:g} s for processes "
            f"{', '.join(map(str, processes))} of the group, and {names} did not come. Each of "
            "them calls collectives with the same devices in the same order."
        )
        raise DeadlineExceededError(msg, operation="collectives", missing=missing) from None


def _call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a method of the store, which may be another library's and raise anything."""
    try:
        return function(*arguments)
    except DevrtError:
        raise
    except Exception as error:
        kind = DeadlineExceededError if "DEADLINE_EXCEEDED" in str(error) else DistributedError
        msg = f"collectives could not meet the other processes: {type(error).__name__}: {error}."
        raise kind(msg, operation="collectives") from error
