"""A client's connection to its plugin: who uses it, what it keeps for the plugin, how it ends."""

from __future__ import annotations

import itertools
import os
import time
import weakref
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from devrt.contract import Client
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
from devrt_pjrt.connection.inventory import Inventory
from devrt_pjrt.library.apart import Speaker, call_apart, is_end_demanded
from devrt_pjrt.library.library import Library

if TYPE_CHECKING:
    from devrt.compiling.load_or_compile import CacheSource
    from devrt.records import PluginTraits

__all__ = ["Connection"]

_CLOSE_SECONDS = 60.0
_STUCK_MS = 10_000


class Owned(Protocol):
    """What is destroyed before the plugin's client: a loaded executable, a transfer."""

    def destroy(self) -> None: ...


class Transfer(Owned, Protocol):
    """An `Owned` whose buffers may wait for data that is yet to be sent."""

    def owes_data(self) -> bool: ...


class Closable(Protocol):
    """What is closed after the plugin's client: the store that the plugin asks."""

    def close(self) -> None: ...


class Connection:
    """What a client and all that is of it share; each of them holds it, and it holds the client.

    Parts of it are: ``core``, the native half, which counts the calls in flight and ends the
    plugin's client; ``live``, the handles of buffers, oldest first, and where the large ones were
    made; ``kept``, what the plugin still reads, by token; ``results`` and ``staging``, native
    structures and memory that buffers are read into, to use again; ``last_run``, the program that
    was started last, to name what is waited for; ``calls``, of programs that run on the thread that
    calls them; ``executables``, the loaded ones in the order in which they came; ``runners`` and
    ``managers``, what is destroyed before the plugin's client; ``explain``, which adds to an error
    what the client knows of its cause. ``store`` is the cluster's, which the plugin asks.
    """

    client: Client
    inventory: Inventory
    traits: PluginTraits

    def __init__(
        self,
        library: Library,
        platform: str,
        pointer: Any,
        options: Mapping[str, Any] | None = None,
        store: Closable | None = None,
        cache: CacheSource | None = None,
    ) -> None:
        self.library = library
        self.api = library.api
        self.platform = platform
        self.pointer = pointer
        self.options = MappingProxyType(dict(options or {}))
        self.cache = cache
        self.core = self.api.make_core(pointer)
        # Buffers and views have shares of the core, too: the last one destroys the plugin's client.
        self._share = ffi.gc(self.core, lib.devrt_core_drop)
        self.pid = os.getpid()
        self.is_closed = False
        self.live: dict[int, Any] = {}
        self.is_searched = False  # for the objects of live buffers, at least once
        self.kept: dict[int, Any] = {}
        self.results: list[Any] = []
        self.staging: list[tuple[Any, Any]] = []
        self.last_run = ""
        self.calls: set[object] = set()
        self.executables: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self.runners: weakref.WeakSet[Owned] = weakref.WeakSet()
        self.managers: weakref.WeakSet[Transfer] = weakref.WeakSet()
        self.explain: Callable[[DevrtError], DevrtError] = lambda error: error
        self._store = store
        self._tokens = itertools.count(1)
        try:
            self.inventory = Inventory(self)
            self.traits = library.traits_for(self.inventory.platform)
        except DevrtError:
            lib.devrt_core_retire(self.core)  # the error's traceback would keep the client
            raise

    def origin(self) -> bytes:
        """Return what makes the code that this processor runs; plugins compare it for devices."""
        from devrt.compiling.serialized import origin_of

        if not self.traits.runs_on_caller:
            return b""
        try:
            return origin_of(self.library.path)
        except OSError:  # opened as an address, or gone since
            return b""

    def close(self) -> None:
        """Wait for the calls in flight and give all memory back; see `PjrtClient.close`."""
        if self.is_closed or self.pid != os.getpid():
            return
        if lib.devrt_is_inside():
            msg = (
                "close failed: it was called from a function that one of the client's programs "
                "runs, and would wait for that function to return. Close the client after the "
                "program."
            )
            raise DevrtError(msg, code=StatusCode.FAILED_PRECONDITION, operation="close")
        if not is_end_demanded():
            call_apart(self._close, speaker=Speaker(self.what_runs))

    def _close(self) -> None:
        deadline = time.monotonic() + _CLOSE_SECONDS
        while (status := lib.devrt_core_close(self.core, 100)) == lib.DEVRT_WAITING:
            if time.monotonic() > deadline:
                msg = f"{self.client!r} cannot be closed: calls of other threads have not ended."
                raise DevrtError(msg, operation="close")
        self.is_closed = True
        if status != lib.DEVRT_OK:
            return
        for manager in list(self.managers):  # before all else, so that what waits for data fails
            manager.destroy()
        for runner in list(self.runners):
            runner.destroy()
        while self.live:
            handle, _ = self.live.popitem()
            lib.devrt_release(handle)
        self.drain()
        lib.devrt_core_retire(self.core)
        self._settle(deadline)
        if self._store is not None:
            self._store.close()

    def _settle(self, deadline: float) -> None:
        """Wait for the programs that took donated buffers: only then are these destroyed."""
        while lib.devrt_core_settle(self.core, 0, 100) == lib.DEVRT_WAITING:
            if lib.devrt_core_is_stuck(self.core, _STUCK_MS) or time.monotonic() > deadline:
                return  # the process may go on; its end does not wait for the plugin either

    def what_runs(self) -> str:
        """Return the name of the program that was started last; "" if there is none."""
        return self.last_run

    def using(self, operation: str) -> _Use:
        """Return a context in which the plugin's client is not destroyed; refuse a closed one."""
        return _Use(self, operation)

    def refuse_if_stuck(self, operation: str) -> None:
        """Look whether a program that failed on one device keeps others waiting for ever."""
        if lib.devrt_core_is_stuck(self.core, _STUCK_MS):
            msg = (
                f"{operation} failed: a program of {self.client!r} has failed on one device, and "
                "the others wait for it in a collective. Nothing more will come of them: see that "
                "device's result for the cause, close the client and make another one."
            )
            raise DeviceLostError(msg, operation=operation, platform=self.platform)

    def keep(self, value: Any) -> int:
        """Keep a value alive until its token is finished."""
        token = next(self._tokens)
        self.kept[token] = value
        return token

    def drain(self) -> None:
        """Release what the plugin does not need any more."""
        if not self.kept:
            return
        tokens = ffi.new("int64_t[64]")
        while count := lib.devrt_core_finished(self.core, tokens, 64):
            for token in ffi.unpack(tokens, count):
                self.kept.pop(token, None)

    def error(self, status: int, operation: str, result: Any, **data: Any) -> DevrtError:
        """Return what a status of the native half means."""
        if status == lib.DEVRT_FAILED:
            return self.explain(self.api.take(result.error, operation, **data))
        if status == lib.DEVRT_CLOSED:
            msg = f"{operation} failed: {self.client!r} was closed. Make another one."
            return ClosedError(msg, operation=operation, platform=self.platform)
        if status == lib.DEVRT_FORKED:
            msg = (
                f"{operation} failed: {self.client!r} belongs to process {self.pid}, which forked "
                "this one. Clients do not survive a fork: use the spawn method, or make it "
                "afterwards."
            )
            return ForkedError(msg, operation=operation, platform=self.platform)
        if status == lib.DEVRT_NO_MEMORY:
            return OutOfMemoryError(f"{operation} failed: no host memory.", operation=operation)
        msg = f"{operation} failed with status {status} of the native half. Report it."
        return InternalError(msg, operation=operation)


class _Use:
    """A call in flight: the client is not destroyed meanwhile."""

    __slots__ = ("_connection", "_operation")

    def __init__(self, connection: Connection, operation: str) -> None:
        self._connection = connection
        self._operation = operation

    def __enter__(self) -> None:
        status = lib.devrt_core_enter(self._connection.core)
        if status != lib.DEVRT_OK:
            raise self._connection.error(status, self._operation, None)

    def __exit__(self, *_: object) -> None:
        lib.devrt_core_leave(self._connection.core)
