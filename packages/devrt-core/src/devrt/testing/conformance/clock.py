"""Clocks for limits that a busy machine must not break."""

import time
from pathlib import Path

__all__ = ["Queueing", "clock", "queued_by"]

_SCHEDULED = Path("/proc/thread-self/schedstat")  # Linux: nanoseconds run, those queued, runs
_LEAST_QUEUED = 0.1


def clock() -> float:
    """Return seconds as `time.perf_counter`, less those that this thread waited for a processor.

    Sleep and waits for others count. Where the system does not say how long threads are queued, all
    of the time counts.
    """
    queued = _queued()
    while True:
        now, before = time.perf_counter(), queued
        queued = _queued()
        if queued == before:  # else the thread was queued between the two clocks
            return now - queued


class Queueing:
    """For how long a busy machine let a process wait, which a limit of its time leaves out.

    Those that it started count with it, for it may wait for them.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._before = queued_by(process)

    def more(self) -> float:
        """Return the seconds that one of them waited for a processor since the last call.

        0 where that is next to nothing, so that one that does not wait is not given time again and
        again; the longest wait of one of them, for they may wait side by side.
        """
        before, self._before = self._before, queued_by(self._process)
        longest = max((n - before.get(p, 0.0) for p, n in self._before.items()), default=0.0)
        return longest if longest >= _LEAST_QUEUED else 0.0


def queued_by(process: int) -> dict[int, float]:
    """Return the seconds that the first threads of a process and of its children waited, by number.

    Those of processes that the system does not tell of are 0, or not among them.
    """
    found = {process: _seconds(Path(f"/proc/{process}/schedstat"))}
    for file in Path(f"/proc/{process}/task").glob("*/children"):  # each thread's own
        for child in _numbers(file):
            found |= queued_by(child)
    return found


def _numbers(file: Path) -> list[int]:
    try:
        return [int(word) for word in file.read_text(encoding="ascii").split()]
    except (OSError, ValueError):
        return []  # it has ended meanwhile


def _queued() -> float:
    return _seconds(_SCHEDULED)


def _seconds(file: Path) -> float:
    try:
        return int(file.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
