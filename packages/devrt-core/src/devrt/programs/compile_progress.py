"""What is seen of a compilation that takes seconds."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator

from devrt._support import log

__all__ = ["shown_while_compiling"]

_PATIENCE = 2.0  # seconds after which a compilation is shown
_STEP = 0.5


@contextlib.contextmanager
def shown_while_compiling(name: str, num_devices: int) -> Iterator[None]:
    """Show on a terminal how long a program has been compiling, once it has taken seconds.

    Elsewhere a log record at its end says so.
    """
    what = f"compiling {name} for {num_devices} device{'s' * (num_devices > 1)}"
    began, done = time.monotonic(), threading.Event()
    timer = None
    if sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty():
        timer = threading.Timer(_PATIENCE, _show, (what, began, done))
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        done.set()
        if timer is not None:
            timer.cancel()
            timer.join()
        seconds = time.monotonic() - began
        if seconds >= _PATIENCE:
            log.info("%s took %.1f s", what, seconds)


def _show(what: str, began: float, done: threading.Event) -> None:
    while not done.wait(_STEP):
        sys.stderr.write(f"\rdevrt: {what}: {time.monotonic() - began:.0f} s ")
        sys.stderr.flush()
    sys.stderr.write("\r\x1b[K")
    sys.stderr.flush()
