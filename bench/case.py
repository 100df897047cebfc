"""What a subject declares, and what a worker times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from time import perf_counter
from typing import Any

__all__ = ["Factory", "Spec", "Sweep", "Timed", "choose", "fresh", "repeated"]


@dataclass(frozen=True)
class Sweep:
    """One point of a sweep.

    Attributes
    ----------
    name
        The sweep that the point belongs to.
    unit
        What grows, in the singular: ``"B"``, ``"device"``, ``"plugin"``.
    x
        How much of it there is at this point.
    """

    name: str
    unit: str
    x: float


@dataclass(frozen=True)
class Spec:
    """One case: what is compared, with whom, and on how many devices.

    A spec imports neither library, so that the driver can list cases without either.

    Attributes
    ----------
    name
        The key under which each side's factories offer the case.
    peers
        The environments of ``peers.toml`` that devrt is measured beside.
    devices
        How many CPU devices the worker processes have.
    platform
        ``"cpu"``, or ``"gpu"``: what the worker processes compute on.
    sweep
        The point of a sweep that this case is, or None for a case of its own.
    is_large
        Whether the case is left out unless ``--full`` is given.
    bars
        Peers, each with the most that devrt's cost may be over the peer's.
    """

    name: str
    peers: tuple[str, ...] = ("jax",)
    devices: int = 1
    platform: str = "cpu"
    sweep: Sweep | None = None
    is_large: bool = False
    bars: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Timed:
    """A call to time, and the items that it is called with.

    The result of every call is dropped within the timed loop, so deletion is part of the cost, on
    every side alike. The items are made before the clock starts and dropped after it stops.

    Attributes
    ----------
    call
        Called with one item.
    items
        Makes the given number of items.
    max_loops
        The most items to hold at once.
    note
        A remark on this side's figure.
    """

    call: Callable[[Any], object]
    items: Callable[[int], Iterable[Any]]
    max_loops: int = 1_000_000
    note: str = ""

    def seconds(self, loops: int) -> float:
        """Time `loops` calls; returns their sum in seconds."""
        call = self.call
        items = self.items(loops)
        start = perf_counter()
        for item in items:
            call(item)
        return perf_counter() - start


Factory = Callable[[], Timed]


def repeated(call: Callable[[Any], object], item: object, note: str = "") -> Timed:
    """Time `call` on the same item over and over."""
    return Timed(call, lambda loops: repeat(item, loops), note=note)


def fresh(call: Callable[[Any], object], make: Callable[[], Any], nbytes: int) -> Timed:
    """Time `call` on an item that nothing has been called on yet.

    `nbytes` is the size of an item: a batch of them holds 64 MiB at most, since making it takes
    far longer than reading it.
    """
    most = max(1, min(5000, (64 << 20) // max(nbytes, 1)))
    return Timed(call, lambda loops: [make() for _ in range(loops)], max_loops=most)


def choose(specs: Sequence[Spec], *, is_full: bool, is_quick: bool) -> list[Spec]:
    """Return the cases to measure: without the large ones, and of a sweep three points if quick."""
    kept = [spec for spec in specs if is_full or not spec.is_large]
    if not is_quick:
        return kept
    sweeps: dict[str, list[Spec]] = {}
    for spec in kept:
        if spec.sweep is not None:
            sweeps.setdefault(spec.sweep.name, []).append(spec)
    shown = {
        points[i].name for points in sweeps.values() for i in (0, len(points) // 2, len(points) - 1)
    }
    return [spec for spec in kept if spec.sweep is None or spec.name in shown]
