"""What ends exchanges that wait for a process which the job has lost.

A connection tells of a process that died, and not of one that is stopped or cut off: of those only
the job's service knows. An engine that waits in a library cannot ask it, so one thread does, for
every communicator whose operation takes long.
"""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

__all__ = ["end_stalls_of"]

_SECONDS = 1.0

_lock = threading.Lock()
_thread: threading.Thread | None = None


class _Stallable(Protocol):
    def end_if_stalled(self, seconds: float) -> None: ...


_groups: weakref.WeakSet[_Stallable] = weakref.WeakSet()


def end_stalls_of(group: _Stallable) -> None:
    """Have a communicator's operations ended that wait for what is lost, until it is deleted."""
    global _thread
    with _lock:
        _groups.add(group)
        if _thread is None or not _thread.is_alive():  # as in the child of a fork
            _thread = threading.Thread(target=_run, name="devrt-stalls", daemon=True)
            _thread.start()


def _run() -> None:
    pause = threading.Event()
    while not pause.wait(_SECONDS):
        with _lock:
            groups = list(_groups)
        for group in groups:
            group.end_if_stalled(_SECONDS)
        del groups
