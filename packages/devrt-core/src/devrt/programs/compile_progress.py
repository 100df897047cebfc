"""What is seen of a compilation that takes seconds."""

from __future__ import annotations

import contextlib
import html
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from devrt._support import log
from devrt._support.notebook import notebook_display

__all__ = ["shown_while_compiling"]

_PATIENCE = 2.0  # seconds after which a compilation is shown
_STEP = 0.5

Show = Callable[[float, bool], None]
"""Shows for how many seconds it compiles; then, once, that it is done."""


@contextlib.contextmanager
def shown_while_compiling(name: str, num_devices: int) -> Iterator[None]:
    """Show how long a program has been compiling, once it has taken seconds.

    On a terminal that is a line which goes again, in a notebook a bar. Elsewhere a log record at
    its end says so.
    """
    what = f"compiling {name} for {num_devices} device{'s' * (num_devices > 1)}"
    began, done = time.monotonic(), threading.Event()
    show, timer = _display(what), None
    if show is not None:
        timer = threading.Timer(_PATIENCE, _follow, (show, began, done))
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


def _follow(show: Show, began: float, done: threading.Event) -> None:
    while not done.wait(_STEP):
        show(time.monotonic() - began, False)
    show(time.monotonic() - began, True)


def _display(what: str) -> Show | None:
    """Return what shows a compilation; None where nobody looks."""
    notebook = notebook_display()
    if notebook is not None:
        return _bar_in(notebook, what)
    if sys.stderr is None or sys.stderr.closed or not sys.stderr.isatty():
        return None
    return lambda seconds, is_done: _write_line(what, seconds, is_done)


def _write_line(what: str, seconds: float, is_done: bool) -> None:
    sys.stderr.write("\r\x1b[K" if is_done else f"\rdevrt: {what}: {seconds:.0f} s ")
    sys.stderr.flush()


def _bar_in(notebook: Any, what: str) -> Show:
    """Return what draws a bar: one that only moves, as nobody knows how far a compiler is."""
    handle: Any = None

    def show(seconds: float, is_done: bool) -> None:
        nonlocal handle
        filled = ' value="1" max="1"' if is_done else ""
        bar = notebook.HTML(f"<progress{filled}></progress> {html.escape(what)}: {seconds:.1f} s")
        if handle is not None:
            handle.update(bar)
        elif not is_done:
            handle = notebook.display(bar, display_id=True)

    return show
