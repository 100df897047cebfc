"""Clocks for limits that a busy machine must not break."""

import time
from pathlib import Path

__all__ = ["clock", "queued_by"]

_SCHEDULED = Path("/proc/thread-self/schedstat")  # Linux: nanoseconds run, those queued, runs


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


def queued_by(process: int) -> float:
    """Return for how many seconds a process's first thread waited for a processor; 0 if unknown."""
    return _seconds(Path(f"/proc/{process}/schedstat"))


def _queued() -> float:
    return _seconds(_SCHEDULED)


def _seconds(file: Path) -> float:
    try:
        return int(file.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
