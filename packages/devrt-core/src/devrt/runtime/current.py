"""The runtime that the module-level functions use: the one mutable global of devrt."""

from __future__ import annotations

import atexit
import contextlib

from devrt._support.context import Context
from devrt.runtime.runtime import Runtime

__all__ = ["default_runtime", "set_default_runtime"]

_holder: dict[str, Runtime] = {}
_DEFAULT = "default"


def default_runtime() -> Runtime:
    """Return the runtime that ``devrt.devices()`` and its kin use, made at the first call."""
    # Without a lock, which a fork in another thread would leave held for ever: of two threads that
    # come first at once one wins, and the other's runtime has done nothing yet.
    return _holder.get(_DEFAULT) or _holder.setdefault(_DEFAULT, Runtime())


def set_default_runtime(runtime: Runtime | None) -> Runtime | None:
    """Replace the default runtime and return the former, which is not closed.

    Parameters
    ----------
    runtime
        The new default; None lets the next use make a fresh one.
    """
    Context.changed()
    former = _holder.pop(_DEFAULT, None)
    if runtime is not None:
        _holder[_DEFAULT] = runtime
    return former


@atexit.register
def _close_default() -> None:
    # Who interrupts this wants its end only; a backend ends the process as an interrupt does.
    with contextlib.suppress(KeyboardInterrupt):
        for runtime in _holder.values():
            runtime.close()
