"""Events of a plugin: waiting for them with a deadline, and for interrupts."""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING, Any

from devrt.errors import DeadlineExceededError
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.library.apart import note_interrupt, watch_interrupts
from devrt_pjrt.library.checks import seconds_of
from devrt_pjrt.library.handle import Handle

if TYPE_CHECKING:
    from devrt_pjrt.connection.connection import Connection

__all__ = ["Event"]

_SLICE = 100


class Event(Handle):
    """A plugin's event, taken over.

    Parameters
    ----------
    connection
        Of the client whose plugin made it.
    pointer
        A ``PJRT_Event*``; destroyed here.
    keeps
        What must stay alive until the event is ready, also where nobody waits for it.
    """

    def __init__(self, connection: Connection, pointer: Any, keeps: Any = None) -> None:
        self._connection = connection
        token = connection.keep(keeps)
        error = ffi.new("PJRT_Error **")
        self._watch = lib.devrt_watch_make(
            connection.api.table, pointer, connection.core, token, error
        )
        if self._watch == ffi.NULL:
            connection.kept.pop(token, None)
            if error[0]:
                raise connection.api.take(error[0], "PJRT_Event_OnReady")
            raise MemoryError

    @classmethod
    def of_watch(cls, connection: Connection, watch: Any) -> Event:
        """Return the event that a ``devrt_watch*`` waits for, which is taken over.

        Raises
        ------
        MemoryError
            If there is none: the native half makes one as long as it has memory.
        """
        if watch == ffi.NULL:
            raise MemoryError
        made = cls.__new__(cls)
        made._connection, made._watch = connection, watch
        return made

    def is_ready(self) -> bool:
        """Return whether the event is ready, without waiting."""
        error = ffi.new("PJRT_Error **")
        return bool(lib.devrt_watch_wait(self._watch, 0, error) != lib.DEVRT_WAITING)

    def wait(self, operation: str, timeout: float | None = None) -> None:
        """Wait with the GIL released, for at most ``timeout`` seconds; errors name the operation.

        Raises `DeadlineExceededError` if the event is not ready in time, and the event's own error.
        """
        timeout = seconds_of(timeout, operation)
        try:
            self._wait(operation, timeout)
        except KeyboardInterrupt:
            waited = weakref.ref(self)
            note_interrupt(lambda: (e := waited()) is not None and not e.is_ready())
            raise
        if self._connection.kept:
            self._connection.drain()

    def _wait(self, operation: str, timeout: float | None) -> None:
        error = ffi.new("PJRT_Error **")
        end = None if timeout is None else time.monotonic() + timeout
        is_watched = False
        while True:
            left = _SLICE if end is None else max(0, int((end - time.monotonic()) * 1000))
            status = lib.devrt_watch_wait(self._watch, min(_SLICE, left), error)
            if status == lib.DEVRT_FAILED:
                raise self._connection.api.describe(error[0], operation)
            if status == lib.DEVRT_OK:
                return
            if not is_watched:
                watch_interrupts()
                is_watched = True
            if end is not None and time.monotonic() >= end:
                msg = f"{operation} did not finish within {timeout:g} s."
                raise DeadlineExceededError(msg, operation=operation)

    def __del__(self) -> None:
        watch = getattr(self, "_watch", None)
        if watch:
            lib.devrt_watch_release(watch)
