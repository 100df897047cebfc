"""The clients of one runtime: each made once, at the first use, and closed together."""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
import time
import types
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from devrt._config.layers import Config
from devrt._support import log
from devrt._support.warn import warn
from devrt.contract import Client, Job
from devrt.errors import (
    BackendInitializationError,
    ConfigError,
    DeadlineExceededError,
    DevrtError,
    DevrtWarning,
    DistributedError,
    ForkedError,
    InvalidArgumentError,
    PluginBusyError,
)
from devrt.plugins import FROM_FACTORY, Backend, Broken, Candidate, PluginRef
from devrt.plugins.loading.once import Once
from devrt.probing.client_checks import problem_of
from devrt.records import CACHE_OPTIONS, TRACEBACK_IN_BUFFERS, ClientContext
from devrt.runtime.plugin_errors import note_origin

__all__ = ["ClientStore", "without_callers"]

_PATIENCE = 120.0  # seconds; slow ones, of a cluster say, have a timeout of their own
_GRACE = 5.0  # the thread that makes the client gets its timeout first

_under_way: contextvars.ContextVar[frozenset[PluginRef]] = contextvars.ContextVar(
    "devrt_factories_under_way", default=frozenset()
)
"""Whose factories this thread is in; the thread of a deadline carries it along."""


class ClientStore:
    """Makes clients, keeps them, and keeps what failed, so that the same use fails alike.

    ``preflight`` is called before a client is made, with what it is made of; it returns why it is
    not to be.
    """

    def __init__(
        self,
        config: Config,
        preflight: Callable[[Backend, Mapping[str, Any]], Broken | None] = lambda *_: None,
    ) -> None:
        self._config = config
        self._preflight = preflight
        self._warned: set[str] = set()
        self.job: Job | None = None  # of the clients that are kept
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._tried: set[PluginRef] = set()
        self._making: Once[PluginRef, Client] = Once(
            lambda ref: f"the client of plugin {ref} is being made"
        )
        self._clients: dict[PluginRef, Client] = {}
        self._named: weakref.WeakSet[Client] = weakref.WeakSet()
        self._failed: dict[PluginRef, DevrtError] = {}

    def get(self, backend: Backend) -> Client:
        """Return the client of a backend, made at the first call and again once it was closed.

        Raises `BackendInitializationError` if it could not be made, on every call, as a fresh
        exception; `ForkedError` in a process forked from one that had made clients, or was
        importing what this needs; `PluginBusyError` if its factory requested what waits for it,
        which a later call need not meet.
        """
        self.check_process()
        ref = backend.ref
        self._tried.add(ref)
        return self._making.get(
            ref, lambda: self.open(ref), lambda: self._first(backend), self._patience(backend)
        )

    def open(self, ref: PluginRef) -> Client | None:
        """Return the client of a plugin if it was made and is open."""
        client = self._clients.get(ref)
        return None if client is None or client.is_closed else client

    def make(self, backend: Backend, options: Mapping[str, Any]) -> Client:
        """Make a client that is not kept, with ``options`` in place of configured values."""
        self.check_process()
        client = self._call_factory(backend, options)[0]
        with contextlib.suppress(TypeError):  # a class of a plugin's that weak references refuse
            self._named.add(client)
        return client

    def live(self) -> dict[PluginRef, Client]:
        """Return the clients made so far that are open, ordered by plugin."""
        clients = self._clients.copy()  # without the lock, which a fork may have left held
        return {ref: client for ref, client in sorted(clients.items()) if not client.is_closed}

    def named(self) -> list[Client]:
        """Return the open clients that `make` made and that somebody still has."""
        return [client for client in list(self._named) if not client.is_closed]

    def failure(self, ref: PluginRef) -> DevrtError | None:
        """Return why a plugin's client could not be made; None if it was not tried or works."""
        return self._failed.get(ref)

    def failures(self) -> dict[PluginRef, DevrtError]:
        """Return every such failure, ordered by plugin."""
        return dict(sorted(self._failed.items()))

    def forget_failure(self, ref: PluginRef) -> None:
        """Let the next use try again."""
        self._failed.pop(ref, None)

    def close_all(self) -> list[str]:
        """Close every client and forget every failure; return what went wrong, in words.

        In a forked child nothing is closed: the threads that a client would wait for are the
        parent's.
        """
        if self._pid != os.getpid():
            return []
        with self._lock:
            clients, self._clients = self._clients, {}
            self._failed.clear()
        return [p for ref, client in sorted(clients.items()) if (p := _close(ref, client))]

    def warn_once(self, message: str, category: type[Warning] = DevrtWarning) -> None:
        """Warn at the caller's line, the first time that these words are used."""
        with self._lock:  # two threads may have the same to say
            if message in self._warned:
                return
            self._warned.add(message)
        warn(message, category)

    def check_process(self) -> None:
        """Raise `ForkedError` in a process forked from one that had made clients."""
        if self._pid == os.getpid():
            return
        if self._clients or self._tried:
            raise _forked(self._pid, sorted(self._tried))
        self._reset()  # forked before anything was made

    def _first(self, backend: Backend) -> Client:
        ref = backend.ref
        failed = self._failed.get(ref)
        if failed is not None:
            raise failed.fresh()
        if backend.factory.experimental:
            self.warn_once(
                f"platform {ref.platform!r} ({ref}) is experimental: its author says that results "
                "may be incomplete or wrong."
            )
        began = time.perf_counter()
        try:
            client, count = self._call_factory(backend, {}, self.job)
        except BackendInitializationError as error:  # any other is a value that the user can fix
            self._failed[ref] = error.fresh()
            log.info("client of %s failed in %.3f s: %s", ref.name, _since(began), error.message)
            raise
        seconds = _since(began)
        names = tuple(spec.name for spec in backend.options)
        self._config.freeze(names, f"the {ref.platform} client of {ref}")
        with self._lock:
            self._clients[ref] = client
        log.info("client of %s made in %.3f s: %d devices", ref.name, seconds, count)
        return client

    def _call_factory(
        self, backend: Backend, options: Mapping[str, Any], job: Job | None = None
    ) -> tuple[Client, int]:
        """Return a client and the number of its devices."""
        ref = backend.ref
        _refuse_a_circle(ref)
        values = {spec.name: self._config.read(spec.name) for spec in backend.options}
        context = ClientContext(
            options=types.MappingProxyType({**values, **options}),
            memory_kinds=backend.memory_kinds,
            job=job,
        )
        broken = self._preflight(backend, context.options)
        if broken is not None:
            from devrt.runtime import failures as _failures  # only where something failed

            problem = f"tried in a child process, {broken.reason}"
            raise _failures.unusable(ref, problem, broken.remedy)
        timeout = self._timeout(backend)  # a malformed one is the configuration's error
        token = _under_way.set(_under_way.get() | {ref})
        try:
            client = self._call(backend, lambda: backend.make(context), timeout)
            problem = problem_of(ref, client)
            count = 0 if problem else client.device_count()  # plugin code, like the rest
        except ForkedError:
            raise  # of this process, not of the plugin
        except PluginBusyError:
            raise  # no verdict on the plugin: it would be another one in a moment
        except (Exception, SystemExit) as error:  # plugin code: a driver may fail in any way
            wrong_value = isinstance(error, InvalidArgumentError | ConfigError)
            if wrong_value and (options or self._is_set(backend)):
                raise  # a value that the user gave, not a failure of the plugin
            if job is not None and isinstance(error, DeadlineExceededError | DistributedError):
                raise  # the job's failure, which no other platform would fix
            busy = _busy_cause(error)
            if busy is not None:
                raise busy.fresh() from error
            from devrt.contract.incomplete import incomplete_classes
            from devrt.runtime import failures as _failures  # only where something failed

            incomplete = incomplete_classes(ref.module) if isinstance(error, TypeError) else ""
            if incomplete:
                raise _failures.unusable(ref, f"of its classes, {incomplete}") from error
            raise _failures.initialization(ref, error) from error
        finally:
            _under_way.reset(token)
        if problem:
            _discard(ref, client)
            from devrt.runtime import failures as _failures  # only where something failed

            raise _failures.unusable(ref, problem)
        note_origin(client, ref)
        if self._config.read("show_in_top"):
            self._show(client, ref)
        return client, count

    def _show(self, client: Client, ref: PluginRef) -> None:
        from devrt.runtime.memory_server import show  # only where that is requested

        try:
            show(client, ref.name)
        except OSError as error:
            self.warn_once(f"devrt top will not show the clients of this process: {error}.")

    def _is_set(self, backend: Backend) -> bool:
        """Return whether the user has set an option that the plugin brings, for it to refuse."""
        shared = {TRACEBACK_IN_BUFFERS.name, *(spec.name for spec in CACHE_OPTIONS)}
        own = (spec.name for spec in backend.options if spec.name not in shared)
        return any(self._config.setting(name).origin != "default" for name in own)

    def _timeout(self, backend: Backend) -> float | None:
        timeout: float | None = self._config.read("init_timeout")
        return backend.manifest.init_timeout if timeout is None else timeout

    def _patience(self, backend: Backend) -> float:
        timeout = self._timeout(backend)
        return _PATIENCE if timeout is None else timeout + _GRACE

    def _call(self, backend: Backend, make: Callable[[], Client], timeout: float | None) -> Client:
        ref, patience = backend.ref, backend.manifest.init_warning
        if timeout is None and patience is None:
            return make()
        from devrt.runtime.deadline import call_with_deadline, warned_after

        def on_slow() -> None:
            self.warn_once(
                f"platform {ref.platform!r} ({ref}) has not been initialised after {patience:g} s. "
                "Is another process using its devices, or a host of the cluster not started? "
                "DEVRT_INIT_TIMEOUT sets a deadline."
            )

        with warned_after(patience, on_slow):
            return call_with_deadline(make, timeout, lambda late: _discard(ref, late))


def without_callers(candidates: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Leave out the factories that may be asking: those of calls, and those under way.

    Where nothing else is left, all stay.
    """
    callers = _under_way.get()
    others = (c for c in candidates if c.ref.source != FROM_FACTORY and c.ref not in callers)
    return tuple(others) or candidates


def _refuse_a_circle(ref: PluginRef) -> None:
    if ref in _under_way.get():
        msg = (
            f"the factory of plugin {ref} requested a client of platform {ref.platform!r}, which "
            "it is making, and no other plugin makes one. Its author must have it make the "
            "client itself, or ask for another platform."
        )
        raise PluginBusyError(msg, **ref.facts())


def _since(began: float) -> float:
    return time.perf_counter() - began


def _busy_cause(error: BaseException) -> PluginBusyError | None:
    seen: list[BaseException] = []
    at: BaseException | None = error
    while at is not None and at not in seen:
        if isinstance(at, PluginBusyError):
            return at
        seen.append(at)
        at = at.__cause__ or (None if at.__suppress_context__ else at.__context__)
    return None


def _forked(parent: int, refs: Sequence[PluginRef]) -> ForkedError:
    # Here, for an import in a forked child may wait for a thread that stayed in the parent.
    names = ", ".join(ref.platform for ref in refs)
    msg = (
        f"this process was forked from process {parent} after that had made clients ({names}); "
        "their threads and device contexts do not survive a fork. Start processes with "
        "multiprocessing's 'spawn' method, or fork before the first use of devrt."
    )
    return ForkedError(msg, parent=parent, platforms=tuple(ref.platform for ref in refs))


def _discard(ref: PluginRef, client: object) -> None:
    if isinstance(client, Client):
        _close(ref, client)


def _close(ref: PluginRef, client: Client) -> str:
    try:
        client.close()
    except Exception as error:  # noqa: BLE001  plugin code: one bad close must not keep others open
        return f"closing the {ref.platform} client of {ref} failed: {error}"
    return ""
