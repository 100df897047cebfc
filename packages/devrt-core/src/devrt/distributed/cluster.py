"""The processes of a cluster, as its coordination service sees them; no network, no threads.

One thread calls everything here. Time comes from a clock that is given, and passes in ``tick``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from devrt.distributed import faults, rules
from devrt.distributed.gathering import Done, Gathering
from devrt.errors import DevrtError, StatusCode

__all__ = ["Cluster", "Limits", "Node"]

_ALIVE = frozenset({"connected", "leaving"})


class Limits:
    """The times of a cluster, in seconds.

    Parameters
    ----------
    heartbeat
        How long a process may give no sign before it counts as lost.
    register
        How long the first process waits for the last.
    shutdown
        How long one that shuts down waits for the others to.
    """

    def __init__(self, heartbeat: float, register: float, shutdown: float) -> None:
        self.heartbeat = heartbeat
        self.register = register
        self.shutdown = shutdown


class Node:
    """One process: its state, and what it did last."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state = "absent"  # registering, connected, leaving, left, lost
        self.incarnation = 0
        self.seen = 0.0
        self.phase = "never registered"
        self.error: DevrtError | None = None
        self.end = ""  # how it was lost, where that is known


class Cluster:
    """Who belongs to a cluster, who is alive, and which waits are under way.

    Parameters
    ----------
    size
        How many processes there are.
    limits
        How long they have for what.
    recoverable
        Whether a process may be lost, and come again, while the others go on.
    clock
        Returns seconds.
    """

    def __init__(
        self,
        size: int,
        limits: Limits,
        recoverable: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.on_change: Callable[[Node], object] = lambda node: None
        self.nodes = [Node(number) for number in range(size)]
        self.limits = limits
        self.recoverable = recoverable
        self.clock = clock
        self.loss: DevrtError | None = None
        self.version = 0
        self.is_ending = False  # no process is taken in any more
        self._numbers: dict[int, int] = {}  # by incarnation
        self._formed = False
        self._registration: Gathering | None = None
        self._shutdown: Gathering | None = None
        self._leaving: dict[int, tuple[float, float]] = {}  # own seconds to wait, and their end
        self._barriers: dict[str, Gathering] = {}
        self._on_loss: dict[object, tuple[int, Done]] = {}

    def restore(self, number: int, state: str, incarnation: int, phase: str) -> None:
        """Take a process as an earlier service had it; call this of all before anything else."""
        node = self._numbered(number)
        if state == "registering":
            return  # its call ended with that service
        self._set(node, "left" if state == "leaving" else state, phase, incarnation)
        self._formed = self._formed or state in {"connected", "lost"}
        if state == "lost":
            node.error = self._loss("the job", [number])
            self.loss = self.loss if self.recoverable else node.error

    def node(self, number: int, incarnation: int | None = None) -> Node:
        """Return a process that has registered; check who it says that it is."""
        node = self._numbered(number)
        if node.state == "lost" and node.error is not None and incarnation == node.incarnation:
            raise node.error
        if node.state not in _ALIVE:
            words = f"process {number} is not connected ({node.phase}). Call connect() first."
            raise faults.refused(StatusCode.FAILED_PRECONDITION, words, process=number)
        if incarnation is not None and incarnation != node.incarnation:
            words = f"this is not the process {number} that is connected: its incarnation differs."
            raise faults.refused(StatusCode.PERMISSION_DENIED, words, process=number)
        return node

    def number_of(self, incarnation: int) -> int:
        """Return the process that registered with an incarnation."""
        if incarnation not in self._numbers:
            words = "a process that is not registered made a call. Call connect() first."
            raise faults.refused(StatusCode.FAILED_PRECONDITION, words)
        return self._numbers[incarnation]

    def register(self, number: int, incarnation: int, done: Done) -> None:
        """Take a process in; it waits until all are there."""
        node = self._numbered(number)
        if self.is_ending:
            words = "the coordination service is shutting down: its job has ended."
            raise faults.refused(StatusCode.CANCELLED, words)
        if node.state in {"connected", "leaving", "registering"} and (
            node.incarnation != incarnation
        ):
            raise rules.number_taken(number, node.phase)
        if node.state == "lost" and not self.recoverable:
            raise rules.was_lost(number)
        self._set(node, "registering", "registering", incarnation)
        if self._formed:
            self._set(node, "connected", "connected")
            done(None)
            return
        if self._registration is None:
            everyone = range(len(self.nodes))
            self._registration = Gathering(
                "the registration of the cluster", everyone, self.limits.register, self.clock()
            )
        self._registration.arrive(number, done)
        if self._registration.is_complete:
            self._form()

    def withdraw(self, number: int) -> None:
        """Forget a process whose call ended while it was registering."""
        node = self.nodes[number]
        if self._registration is not None and node.state == "registering":
            self._registration.withdraw(number)
            self._set(node, "absent", "gone while registering")

    def heartbeat(self, number: int, incarnation: int) -> None:
        """Note that a process is alive."""
        self.node(number, incarnation).seen = self.clock()

    def until_loss(self, number: int, done: Done) -> object:
        """Call a function with the error when a process is lost; return a key for ``forget``."""
        key = object()
        if self.loss is not None:
            done(self.loss)
        else:
            self._on_loss[key] = (number, done)
        return key

    def forget(self, key: object) -> None:
        """Call the function of ``until_loss`` no more."""
        self._on_loss.pop(key, None)

    def arrive(
        self, name: str, number: int, seconds: float, processes: Collection[int], done: Done
    ) -> None:
        """Let a process wait at a barrier."""
        rules.check_count(len(processes), len(self.nodes))
        expected = set(processes) or set(range(len(self.nodes)))
        self._check_barrier(name, number, expected)
        barrier = self._barriers.get(name)
        if barrier is None:
            barrier = Gathering(f"barrier {name!r}", expected, seconds, self.clock())
            self._barriers[name] = barrier
        self.nodes[number].phase = f"waiting at barrier {name!r}"
        barrier.arrive(number, done)
        gone = [n for n in expected if self.nodes[n].state in {"lost", "left", "leaving"}]
        if gone:
            lost = [n for n in gone if self.nodes[n].state == "lost"]
            self._end_barrier(name, self._loss(f"barrier {name!r}", lost or gone))
        elif barrier.is_complete:
            self._end_barrier(name, None)

    def depart(self, name: str, number: int, done: Done) -> None:
        """Forget a call that waited at a barrier: its caller is gone, and may come again."""
        barrier = self._barriers.get(name)
        if barrier is None or not barrier.withdraw(number, done):
            return  # it is over
        if number not in barrier.arrived and self.nodes[number].state == "connected":
            self.nodes[number].phase = f"gone from barrier {name!r}"
        if not barrier.arrived:
            del self._barriers[name]

    def cancel(self, name: str, number: int) -> None:
        """End a barrier: a process says that it will not come."""
        if name in self._barriers:
            words = f"barrier {name!r} was cancelled by process {number}."
            self._end_barrier(name, faults.refused(StatusCode.CANCELLED, words))

    def leave(self, number: int, done: Done, seconds: float | None = None) -> None:
        """Let a process shut down: it waits, perhaps for so long, until all others alive do."""
        node = self._numbered(number)
        if node.state not in _ALIVE:
            done(None)
            return
        self._set(node, "leaving", "shutting down")
        self._fail_barriers_of(node)
        if self._shutdown is None:
            present = [n.number for n in self.nodes if n.state in _ALIVE]
            self._shutdown = Gathering(
                "the shutdown of the cluster", present, self.limits.shutdown, self.clock()
            )
        self._shutdown.arrive(number, done)
        if seconds is not None:
            self._leaving[number] = (seconds, self.clock() + seconds)
        if self._shutdown.is_complete:
            self._end_shutdown(None)

    def has_left(self, number: int, incarnation: int) -> bool:
        """Return whether a process has shut down before."""
        node = self._numbered(number)
        return node.state == "left" and node.incarnation == incarnation

    def alive(self, processes: Collection[int]) -> list[Node]:
        """Return those of some processes, or of all, that are alive, those that leave too."""
        rules.check_count(len(processes), len(self.nodes))
        wanted = set(processes) or range(len(self.nodes))
        return [node for n in sorted(wanted) if (node := self._numbered(n)).state in _ALIVE]

    def tick(self) -> None:
        """Let time pass: end what is over, and find who is lost."""
        now = self.clock()
        if self._registration is not None and self._registration.deadline <= now:
            self._fail_registration(self._registration)
        if self._shutdown is not None and self._shutdown.deadline <= now:
            self._end_shutdown(self._late(self._shutdown))
        for number, (seconds, end) in list(self._leaving.items()):
            if end <= now:
                self._leave_alone(number, seconds)
        for name, barrier in list(self._barriers.items()):
            if barrier.deadline <= now:
                self._end_barrier(name, self._late(barrier))
        late = now - self.limits.heartbeat
        silent = [n for n in self.nodes if n.state in _ALIVE and n.seen < late]
        if silent:
            self._lose(silent)

    def lose(self, number: int, how: str) -> None:
        """Take a process as lost that is known to be dead; nothing where it is not connected."""
        node = self._numbered(number)
        if node.state in _ALIVE:
            node.end = how
            self._lose([node])

    def excuse(self, seconds: float) -> None:
        """Let time in which the service itself did not run count against no process."""
        for node in self.nodes:
            node.seen += seconds

    def describe(self) -> dict[str, Any]:
        """Return the cluster as JSON has it: who is there, and which waits are under way."""
        now = self.clock()
        waits = [w for w in (self._registration, self._shutdown) if w is not None]
        return {
            "processes": [
                {
                    "process": n.number,
                    "state": n.state,
                    "phase": n.phase,
                    "heartbeat_age": round(now - n.seen, 3) if n.seen else None,
                }
                for n in self.nodes
            ],
            "waits": [
                {
                    "what": wait.what,
                    "arrived": sorted(wait.arrived),
                    "missing": wait.missing,
                    "seconds_left": round(wait.deadline - now, 3),
                }
                for wait in [*waits, *self._barriers.values()]
            ],
        }

    def _numbered(self, number: int) -> Node:
        rules.check_number(number, len(self.nodes))
        return self.nodes[number]

    def _set(self, node: Node, state: str, phase: str, incarnation: int | None = None) -> None:
        node.state, node.phase, node.seen = state, phase, self.clock()
        if incarnation is not None:
            self._numbers.pop(node.incarnation, None)
            self._numbers[incarnation] = node.number
            node.incarnation, node.error, node.end = incarnation, None, ""
        self.version += 1
        self.on_change(node)

    def _form(self) -> None:
        gathering, self._registration = self._registration, None
        self._formed = True
        for node in self.nodes:
            self._set(node, "connected", "connected")
        if gathering is not None:
            gathering.end(None)

    def _fail_registration(self, gathering: Gathering) -> None:
        error = self._late(gathering)
        self._registration = None
        for number in gathering.arrived:  # each may try again
            self._set(self.nodes[number], "absent", "its registration timed out")
        gathering.end(error)

    def _late(self, wait: Gathering, seconds: float | None = None) -> DevrtError:
        phases = {n: self.nodes[n].phase for n in wait.missing}
        spent = wait.seconds if seconds is None else seconds
        return faults.missing(wait.what, spent, phases, len(wait.arrived))

    def _loss(self, what: str, processes: Collection[int]) -> DevrtError:
        nodes = [self.nodes[n] for n in sorted(processes)]
        is_lost = any(node.state == "lost" for node in nodes)
        known = next((node.end for node in nodes if node.end), "")
        silence = known or f"gave no sign for {self.limits.heartbeat:g} s"
        why = silence if is_lost else "shut down"
        return faults.lost(what, {node.number: node.phase for node in nodes}, why)

    def _lose(self, silent: list[Node]) -> None:
        for node in silent:
            last = node.phase
            self._set(node, "lost", last)
        loss = self._loss("the job", [node.number for node in silent])
        for node in silent:
            node.error = loss
            self._fail_barriers_of(node)
            if self._shutdown is not None:
                self._shutdown.expected.discard(node.number)
        if self._shutdown is not None and self._shutdown.is_complete:
            self._end_shutdown(None)
        if not self.recoverable:
            self.loss = loss
        for key, (number, done) in list(self._on_loss.items()):
            if not self.recoverable or self.nodes[number].state == "lost":
                self._on_loss.pop(key, None)
                done(loss)

    def _fail_barriers_of(self, node: Node) -> None:
        for name, barrier in list(self._barriers.items()):
            if node.number in barrier.expected:
                self._end_barrier(name, self._loss(f"barrier {name!r}", [node.number]))

    def _end_barrier(self, name: str, error: DevrtError | None) -> None:
        barrier = self._barriers.pop(name)
        for number in barrier.arrived:
            if self.nodes[number].state == "connected":
                self.nodes[number].phase = f"after barrier {name!r}"
        barrier.end(error)

    def _leave_alone(self, number: int, seconds: float) -> None:
        """Let a process go whose own time to wait for the others is over."""
        del self._leaving[number]
        shutdown = self._shutdown
        if shutdown is not None and number in shutdown.arrived:
            error = self._late(shutdown, seconds)
            calls = shutdown.withdraw(number)
            shutdown.expected.discard(number)
            self._set(self.nodes[number], "left", "shut down")
            for done in calls:
                done(error)

    def _end_shutdown(self, error: DevrtError | None) -> None:
        shutdown, self._shutdown = self._shutdown, None
        self._leaving.clear()
        if shutdown is not None:
            for number in shutdown.arrived:
                self._set(self.nodes[number], "left", "shut down")
            shutdown.end(error)
        if all(node.state != "connected" for node in self.nodes):
            self._formed = False  # all may come again

    def _check_barrier(self, name: str, number: int, expected: set[int]) -> None:
        rules.check_expected(name, number, expected, len(self.nodes))
        there = self._barriers.get(name)
        if there is not None and there.expected != expected:
            raise rules.barrier_of_others(name, there.expected, number, expected)
