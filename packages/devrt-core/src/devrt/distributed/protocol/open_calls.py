"""Calls of gRPC that may be open when the interpreter ends.

A call of grpcio takes a lock when it is destroyed. At the end of the interpreter a thread of
grpcio's may hold that lock, and runs no more: the process would wait for it without end.
"""

from __future__ import annotations

import atexit
import ctypes
import weakref
from typing import Any

__all__ = ["kept"]

_open: weakref.WeakSet[Any] = weakref.WeakSet()
_ends = False


def kept(call: Any) -> Any:
    """Return a call, which is never destroyed if it is there at the end of the interpreter."""
    if _ends:
        _keep(call)
    else:
        _open.add(call)
    return call


def _keep(call: Any) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(call))


@atexit.register
def _keep_all() -> None:
    global _ends
    _ends = True
    for call in list(_open):
        _keep(call)
