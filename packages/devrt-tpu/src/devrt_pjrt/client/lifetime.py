"""How a client lives: who uses it, what it keeps for its plugin, and how it ends."""

from __future__ import annotations

import itertools
import os
import time
import weakref
from typing import TYPE_CHECKING, Any

from devrt.errors import (
    ClosedError,
    DeviceLostError,
    DevrtError,
    ForkedError,
    InternalError,
    OutOfMemoryError,
    StatusCode,
)
from devrt_pjrt._native import ffi, lib
from devrt_pjrt.client.handle import Handle
from devrt_pjrt.library.apart import Speaker, call_apart, is_end_demanded
from devrt_pjrt.library.api import Api

if TYPE_CHECKING:
    from devrt_pjrt.buffers.transfer import TransferManager
    from devrt_pjrt.client.memory_report import Site
    from devrt_pjrt.client.store import Store
    from devrt_pjrt.programs.run import Runner

__all__ = ["INTERRUPTS", "Lifetime"]

INTERRUPTS: list[KeyboardInterrupt] = []
"""What broke off a function of Python that a program called on the main thread."""

_CLOSE_SECONDS = 60.0
_STUCK_MS = 10_000


class Lifetime(Handle):
    """What a client owns beside what its plugin tells of it.

    Parameters
    ----------
    api
        The plugin.
    platform
        What users call the platform.
    pointer
        A ``PJRT_Client*``, owned from now on.
    store
        The cluster's key-value store that the plugin asks.
    """

    def __init__(self, api: Api, platform: str, pointer: Any, store: Store | None = None) -> None:
        self._api = api
        self._store = store
        self._platform = platform
        self._pointer = pointer
        self._core = api.make_core(pointer)
        # Buffers and views have shares of the core, too: the last one destroys the plugin's client.
        self._share = ffi.gc(self._core, lib.devrt_core_drop)
        self._pid = os.getpid()
        self._closed = False
        # The handles of buffers, oldest first, and where the large ones were made.
        self._live: dict[int, Site | None] = {}
        self._kept: dict[int, Any] = {}
        self._tokens = itertools.count(1)
        self._results: list[Any] = []  # structures to use again, which is faster than new ones
        self._rooms: list[tuple[Any, Any]] = []  # and memory that buffers are read into
        # By memory: whether its plugin puts elements where a layout says; see `_put_laid_out`.
        self._transposing: dict[Any, bool] = {}
        self._last_run = ""  # to name what is waited for
        self._calls: set[object] = set()  # of programs that run on the thread that calls them
        self._runners: weakref.WeakSet[Runner] = weakref.WeakSet()
        self._managers: weakref.WeakSet[TransferManager] = weakref.WeakSet()

    def close(self) -> None:
        """Wait for the calls in flight and give all memory back. Idempotent.

        Views of buffers (NumPy arrays, DLPack tensors) stay valid; the plugin's client is
        destroyed with the last of them.

        Raises
        ------
        DevrtError
            If calls of other threads do not end, or a function that a program runs calls this.
        """
        if self._closed or self._pid != os.getpid():
            return
        if lib.devrt_is_inside():
            msg = (
                "close failed: it was called from a function that one of the client's programs "
                "runs, and would wait for that function to return. Close the client after the "
                "program."
            )
            raise DevrtError(msg, code=StatusCode.FAILED_PRECONDITION, operation="close")
        if not is_end_demanded():
            call_apart(self._close, speaker=Speaker(self._what_runs))

    def _close(self) -> None:
        deadline = time.monotonic() + _CLOSE_SECONDS
        while (status := lib.devrt_core_close(self._core, 100)) == lib.DEVRT_WAITING:
            if time.monotonic() > deadline:
                msg = f"{self!r} cannot be closed: calls of other threads have not ended."
                raise DevrtError(msg, operation="close")
        self._closed = True
        if status != lib.DEVRT_OK:
            return
        for manager in list(self._managers):  # before all else, so that what waits for data fails
            manager.destroy()
        for runner in list(self._runners):
            runner.destroy()
        while self._live:
            handle, _ = self._live.popitem()
            lib.devrt_release(handle)
        self._drain()
        lib.devrt_core_retire(self._core)
        self._settle(deadline)
        if self._store is not None:
            self._store.close()

    def _settle(self, deadline: float) -> None:
        """Wait for the programs that took donated buffers: only then are these destroyed."""
        while lib.devrt_core_settle(self._core, 0, 100) == lib.DEVRT_WAITING:
            if lib.devrt_core_is_stuck(self._core, _STUCK_MS) or time.monotonic() > deadline:
                return  # the process may go on; its end does not wait for the plugin either

    def _what_runs(self) -> str:
        """Return the name of the program that was started last; "" if there is none."""
        return self._last_run

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __exit__(self, *_: object) -> None:
        self.close()

    def _using(self, operation: str) -> _Use:
        return _Use(self, operation)

    def _refuse_if_stuck(self, operation: str) -> None:
        """Look whether a program that failed on one device keeps others waiting for ever."""
        if lib.devrt_core_is_stuck(self._core, _STUCK_MS):
            msg = (
                f"{operation} failed: a program of {self!r} has failed on one device, and the "
                "others wait for it in a collective. Nothing more will come of them: see that "
                "device's result for the cause, close the client and make another one."
            )
            raise DeviceLostError(msg, operation=operation, platform=self._platform)

    def _keep(self, value: Any) -> int:
        """Keep a value alive until its token is finished."""
        token = next(self._tokens)
        self._kept[token] = value
        return token

    def _drain(self) -> None:
        """Let go what the plugin does not need any more."""
        if not self._kept:
            return
        tokens = ffi.new("int64_t[64]")
        while count := lib.devrt_core_finished(self._core, tokens, 64):
            for token in ffi.unpack(tokens, count):
                self._kept.pop(token, None)

    def _error(self, status: int, operation: str, result: Any, **data: Any) -> DevrtError:
        """Return what a status of the native half means."""
        if status == lib.DEVRT_FAILED:
            return self._explained(self._api.take(result.error, operation, **data))
        if status == lib.DEVRT_CLOSED:
            msg = f"{operation} failed: {self!r} was closed. Make another one."
            return ClosedError(msg, operation=operation, platform=self._platform)
        if status == lib.DEVRT_FORKED:
            msg = (
                f"{operation} failed: {self!r} belongs to process {self._pid}, which forked this "
                "one. Clients do not survive a fork: use the spawn method, or make it afterwards."
            )
            return ForkedError(msg, operation=operation, platform=self._platform)
        if status == lib.DEVRT_NO_MEMORY:
            return OutOfMemoryError(f"{operation} failed: no host memory.", operation=operation)
        msg = f"{operation} failed with status {status} of the native half. Report it."
        return InternalError(msg, operation=operation)

    def _explained(self, error: DevrtError) -> DevrtError:
        """Return an error with what the client knows of its cause."""
        return error


class _Use:
    """A call in flight: the client is not destroyed meanwhile."""

    __slots__ = ("_client", "_operation")

    def __init__(self, client: Lifetime, operation: str) -> None:
        self._client = client
        self._operation = operation

    def __enter__(self) -> None:
        status = lib.devrt_core_enter(self._client._core)
        if status != lib.DEVRT_OK:
            raise self._client._error(status, self._operation, None)

    def __exit__(self, *_: object) -> None:
        lib.devrt_core_leave(self._client._core)
