"""A clock for limits that a busy machine must not break."""

import time
from pathlib import Path

__all__ = ["clock"]

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


def _queued() -> float:
    try:
        return int(_SCHEDULED.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0
