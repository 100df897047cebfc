"""A job over a store, as the process that begins it has it."""

from __future__ import annotations

import json
import threading
from typing import Any

from devrt._support import log
from devrt.distributed.cluster import Limits
from devrt.distributed.faults import refused
from devrt.distributed.link import BEATS
from devrt.distributed.store import Store
from devrt.distributed.stored import job as keys
from devrt.errors import DevrtError, StatusCode

__all__ = ["StoredService", "status_of"]

# What is left of a job goes away with its lease. Nothing waits for that, and a job whose lease
# ended while the store was hardly reached would lose all its keys.
_LEASE_SECONDS = 60.0


class StoredService:
    """The record of a job. The job goes on where this process ends; ``shutdown`` ends the job.

    Parameters
    ----------
    address
        Of the job; its processes give it.
    store
        The job's own; it is closed with the service.
    num_nodes
        How many processes there are.
    limits
        How long they have for what.
    recoverable
        Whether a process may be lost, and come again, while the others go on.
    """

    def __init__(
        self, address: str, store: Store, num_nodes: int, limits: Limits, recoverable: bool
    ) -> None:
        self.address = address
        self._store = store
        self._closed = threading.Event()
        try:
            self._begin(num_nodes, limits, recoverable)
        except BaseException:
            store.close()
            raise
        self._period = limits.heartbeat / BEATS
        threading.Thread(target=self._beat, name="devrt-job-lease", daemon=True).start()

    def shutdown(self) -> None:
        """End the job: its keys are deleted, and calls that wait get an error. Idempotent."""
        if self._closed.is_set():
            return
        self._closed.set()
        try:
            self._lease.revoke()
        finally:
            self._store.close()

    def status(self) -> dict[str, Any]:
        """Return as JSON has it who is there, and what is waited for."""
        return status_of(self._store)

    def __enter__(self) -> StoredService:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def _begin(self, size: int, limits: Limits, recoverable: bool) -> None:
        self._lease = self._store.lease(max(_LEASE_SECONDS, 4 * limits.heartbeat))
        job = keys.Job(
            size,
            limits.heartbeat,
            limits.register,
            limits.shutdown,
            recoverable,
            self._lease.number,
        )
        if not self._store.transaction({keys.JOB: 0}, {keys.JOB: job.encoded()}, self._lease):
            self._lease.revoke()
            words = (
                f"a job is under way at {self.address}. Give each job a prefix of its own; the "
                "keys of one that has failed are deleted when its lease ends."
            )
            raise refused(StatusCode.ALREADY_EXISTS, words, address=self.address)

    def _beat(self) -> None:
        while not self._closed.wait(self._period):
            try:
                self._lease.renew()
            except DevrtError as error:
                log.info("the lease of the job at %s was not renewed: %s", self.address, error)


def status_of(store: Store) -> dict[str, Any]:
    """Return the processes and waits of a job that is under way, as the service's ``status``."""
    found = store.get(keys.JOB)
    if found is None or found.value is None:
        words = "no job is under way there. Look whether the address is right."
        raise refused(StatusCode.NOT_FOUND, words)
    job = keys.Job.decoded(found.value)
    alive = {
        int(entry.key.rpartition("/")[2]): json.loads(entry.value or b"")["state"]
        for entry in store.range(keys.NODES)
    }
    phases = {
        int(entry.key.rpartition("/")[2]): (entry.value or b"").decode()
        for entry in store.range(keys.PHASES)
    }
    processes = [
        {
            "process": number,
            "state": alive.get(number, "gone" if number in phases else "absent"),
            "phase": phases.get(number, "never registered"),
            "heartbeat_age": None,
        }
        for number in range(job.size)
    ]
    return {"processes": processes, "waits": _waits(store, job.size), "refused": {}}


def _waits(store: Store, size: int) -> list[dict[str, Any]]:
    found = []
    for entry in store.range(keys.barrier("")):
        use = json.loads(entry.value or b"")
        arrivals = store.range(keys.arrival(use["use"]))
        arrived = {int(one.key.rpartition("/")[2]) for one in arrivals}
        expected = set(use["expected"]) or set(range(size))
        found.append(
            {
                "what": f"barrier {entry.key.removeprefix(keys.barrier(''))!r}",
                "arrived": sorted(arrived),
                "missing": sorted(expected - arrived),
                "seconds_left": None,
            }
        )
    return found
