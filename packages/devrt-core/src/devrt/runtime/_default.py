"""The runtime that the module-level functions use: the one mutable global of devrt."""

from __future__ import annotations

import atexit
import threading

from devrt.runtime._runtime import Runtime

__all__ = ["default_runtime", "set_default_runtime"]

_lock = threading.Lock()
_holder: list[Runtime] = []


def default_runtime() -> Runtime:
    """Return the runtime that ``devrt.devices()`` and its kin use, made at the first call."""
    if not _holder:
        with _lock:
            if not _holder:
                _holder.append(Runtime())
    return _holder[0]


def set_default_runtime(runtime: Runtime | None) -> Runtime | None:
    """Put another runtime in the default's place and return the former, which is not closed.

    Parameters
    ----------
    runtime
        The new default; None lets the next use make a fresh one.
    """
    with _lock:
        former = _holder[0] if _holder else None
        _holder[:] = [] if runtime is None else [runtime]
    return former


@atexit.register
def _close_default() -> None:
    if _holder:
        _holder[0].close()
