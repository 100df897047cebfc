"""The end of the interpreter: what runs is waited for, and what plugins alias stays."""

from __future__ import annotations

import atexit
import ctypes
import os
import time
import weakref
from typing import TYPE_CHECKING

from devrt_pjrt._native import lib
from devrt_pjrt.buffers.memory_report import live_buffers
from devrt_pjrt.library.apart import Speaker, begin_exit, end_on_demand, is_end_demanded

if TYPE_CHECKING:
    from devrt_pjrt.connection.connection import Connection

__all__ = ["wait_at_exit"]

_SLICE_MS = 100
_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


def wait_at_exit(connection: Connection) -> None:
    """Have the end of the interpreter wait for what runs on a connection."""
    _connections.add(connection)


def _finish(connection: Connection) -> None:
    """Wait for what is known to run, whether it fails or not."""
    is_owed = any(manager.owes_data() for manager in connection.managers)
    is_ours = not connection.is_closed and connection.pid == os.getpid()
    if not connection.last_run or is_owed or not is_ours:
        return
    speaker = Speaker(connection.what_runs)
    for buffer in live_buffers(connection):
        while not buffer.is_settled(_SLICE_MS):
            if lib.devrt_core_is_stuck(connection.core, 0):
                return  # and it is not destroyed then
            speaker.speak()
    while connection.calls:
        time.sleep(_SLICE_MS / 1000)
        speaker.speak()


def _finish_programs() -> None:
    """Wait for what runs when the interpreter exits, as plugins do in silence when they end."""
    begin_exit()
    for connection in list(_connections):
        try:
            if not is_end_demanded():
                _finish(connection)
        except KeyboardInterrupt:
            end_on_demand()
        if is_end_demanded():  # then nothing may end, as that would wait
            end_on_demand()
            lib.devrt_busy(1)
            for each in list(_connections):
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(each))
            return


def _keep_what_is_lent() -> None:
    """Let sources that plugins alias outlive the interpreter: their threads may still read them."""
    for connection in list(_connections):
        lib.devrt_core_is_stuck(connection.core, 0)  # which is not destroyed then
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection.kept))


atexit.register(_keep_what_is_lent)
atexit.register(_finish_programs)
