"""Several child processes at once, which all end where their caller is interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

__all__ = ["GLANCE_SECONDS", "Children", "kill_group", "side_by_side"]

GLANCE_SECONDS = 1.0
"""How long to wait at a time: a signal that comes just before a wait, or to another thread of the
process, does not end it."""

_WORKERS = 8

T = TypeVar("T")
R = TypeVar("R")


class Children:
    """The child processes of one call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alive: list[subprocess.Popen[bytes]] = []
        self._is_over = False

    @contextlib.contextmanager
    def holding(self, child: subprocess.Popen[bytes]) -> Iterator[None]:
        """Let `end` reach a child within the ``with`` block."""
        with self._lock:
            self._alive.append(child)
        try:
            if self._is_over:
                kill_group(child)
            yield
        finally:
            with self._lock:
                self._alive.remove(child)

    def end(self) -> None:
        """Kill every child, and each that is started from now on."""
        with self._lock:
            self._is_over = True
            for child in self._alive:
                kill_group(child)


def side_by_side(do: Callable[[T, Children], R], items: Sequence[T], name: str) -> list[R]:
    """Do something that starts a child for each item, several at once; return what came of it.

    Where the caller is interrupted, Ctrl-C say, the children end and it does not wait.
    """
    children = Children()
    if len(items) < 2:
        return [do(item, children) for item in items]
    import concurrent.futures  # seldom needed, and slow to import

    workers = min(len(items), _WORKERS, 2 * (os.cpu_count() or 1))
    pool = concurrent.futures.ThreadPoolExecutor(workers, name)
    try:
        futures = [pool.submit(do, item, children) for item in items]
        return [_result(future) for future in futures]
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        children.end()
        raise
    finally:
        pool.shutdown(wait=False)


def _result(future: Future[R]) -> R:
    import concurrent.futures

    while not future.done():
        concurrent.futures.wait([future], GLANCE_SECONDS)
    return future.result()


def kill_group(child: subprocess.Popen[bytes]) -> None:
    """Kill a child that leads a group, with all of the group; nothing if it was reaped."""
    if child.returncode is None:  # else its number may be another's by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
