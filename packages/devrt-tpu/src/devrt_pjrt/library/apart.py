"""Calls of a plugin that take long: the main thread waits for them, and signals end the wait."""

from __future__ import annotations

import _thread
import ctypes
import functools
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from devrt_pjrt._native import lib

__all__ = [
    "INTERRUPTS",
    "Speaker",
    "begin_exit",
    "call_apart",
    "end_on_demand",
    "is_end_demanded",
    "note_interrupt",
    "watch_interrupts",
]

T = TypeVar("T")

INTERRUPTS: list[KeyboardInterrupt] = []
"""What broke off a function of Python that a program called on the main thread."""

_SLICE = 0.1
_LINGER = 10.0
_SILENCE = 5.0  # seconds, at exit, unless a wait was interrupted


class _Process:
    """What is known of how this process ends."""

    is_exiting = False
    was_interrupted = False
    has_reported = False  # at exit, once
    is_demanded = False
    given_up: Callable[[], bool] | None = None  # whether what an interrupt gave up goes on


def _is_given_up_running() -> bool:
    return _Process.given_up is not None and _Process.given_up()


def watch_interrupts() -> None:
    """Count interrupts from now on, where the main thread waits for more than a moment."""
    if threading.current_thread() is threading.main_thread():
        lib.devrt_watch_interrupts(not _is_given_up_running())


def end_on_demand() -> None:
    """Let the process end, once it does, as an interrupt ends one, and wait for nothing."""
    _Process.is_demanded = True
    lib.devrt_end_on_demand()


def is_end_demanded() -> bool:
    """Return whether nobody wants to wait for programs to end.

    That is so after `end_on_demand`, and where an interrupt came after the one that ended a wait,
    and what was waited for goes on.
    """
    return _Process.is_demanded or (lib.devrt_is_pressed_again() and _is_given_up_running())


class Speaker:
    """Says what the end of other work waits for, where that is more than a moment.

    ``describe`` returns what is waited for, "" for nothing; ``has_reported`` tells whether it is
    known.
    """

    def __init__(self, describe: Callable[[], str]) -> None:
        self._describe = describe
        self._begun = time.monotonic()
        self.has_reported = False

    def speak(self) -> None:
        """Say it if a user wonders: after an interrupt, or when the exit takes long."""
        process = _Process
        if self.has_reported or not (process.was_interrupted or process.is_exiting):
            return
        if not process.was_interrupted and time.monotonic() - self._begun < _SILENCE:
            return
        what = self._describe()
        if not what:
            return
        self.has_reported = True
        if process.is_exiting and process.has_reported:
            return
        process.has_reported = process.is_exiting
        line = f"devrt: waiting for {what} to end. Ctrl-C again does not wait for it.\n"
        os.write(2, line.encode(errors="replace"))


def note_interrupt(goes_on: Callable[[], bool], speaker: Speaker | None = None) -> None:
    """Note that a handler of a signal ended a wait: from then on waits say what they are for.

    ``goes_on`` returns whether what was waited for goes on; it must not own that. Who knew what it
    was for, by ``speaker``, wants no other wait for it.
    """
    _Process.was_interrupted = True
    if not _is_given_up_running():
        _Process.given_up = goes_on
    lib.devrt_note_interrupt()
    is_known = speaker is not None and (speaker.has_reported or _Process.has_reported)
    if is_known or (_Process.is_exiting and is_end_demanded()):
        end_on_demand()


class _Call(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, function: Callable[[], T], on_late: Callable[[T], object] | None) -> None:
        self._function: Callable[[], T] | None = function
        self._on_late = on_late
        self._value: list[T] = []
        self._error: BaseException | None = None
        self._ended, self._mutex = _thread.allocate_lock(), _thread.allocate_lock()
        self._ended.acquire()
        self._is_given_up = False

    def run(self, release: Callable[[], object] | None) -> None:
        try:
            self._answer()
        finally:
            if release is not None:
                release()
            self._ended.release()

    def _answer(self) -> None:
        function, self._function = self._function, None
        assert function is not None
        try:
            value = _busy(function)
        except BaseException as error:  # noqa: BLE001  raised again by the thread that waits
            self._error = error
            return
        with self._mutex:
            if not self._is_given_up:
                self._value.append(value)
        if self._is_given_up and self._on_late is not None:
            self._on_late(value)

    def wait(self, speaker: Speaker | None) -> T:
        is_watched = False
        while not self._ended.acquire(timeout=_SLICE):
            if not is_watched:
                watch_interrupts()
                is_watched = True
            if speaker is not None:
                speaker.speak()
        self._ended.release()
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None  # which refers to this frame
        return self._value.pop()

    def goes_on(self) -> bool:
        """Return whether the call has not returned."""
        return self._ended.locked()

    def give_up(self) -> bool:
        """Drop what the call returns; return whether it still goes on."""
        with self._mutex:
            self._is_given_up = True
            late = self._value.copy()
            self._value.clear()
        if late and self._on_late is not None:  # it came with the interrupt
            self._on_late(late[0])
        return self.goes_on()


class _Worker:
    """A thread that waits a while for the next call: starting one takes as long as a program."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._has_job, self._mutex = _thread.allocate_lock(), _thread.allocate_lock()
        self._has_job.acquire()
        self._jobs: list[tuple[_Call[Any], Callable[[], object] | None]] = []
        self._is_gone = False
        self.is_left = False
        _thread.start_new_thread(self._run, ())

    def start(self, call: _Call[Any], release: Callable[[], object] | None) -> bool:
        """Run a call; return False if the thread has gone."""
        with self._mutex:
            if self._is_gone:
                return False
            self._jobs.append((call, release))
        self._has_job.release()
        return True

    def _run(self) -> None:
        while self._waits():
            call, release = self._jobs.pop()
            call.run(release)
            del call, release  # what they own is not kept until the next one

    def _waits(self) -> bool:
        if self._has_job.acquire(timeout=0 if self.is_left else _LINGER):
            return True
        with self._mutex:
            self._is_gone = not self._jobs
        return not self._is_gone and self._has_job.acquire()


_workers: list[_Worker] = []
"""The main thread's, or none."""


def _start(call: _Call[Any], release: Callable[[], object] | None) -> bool:
    """Run a call in the worker, or a new one; return False where there are no more threads."""
    if _workers and _workers[0].pid == os.getpid() and _workers[0].start(call, release):
        return True
    try:
        _workers[:] = [_Worker()]
    except RuntimeError:  # as when the interpreter ends
        return False
    return _workers[0].start(call, release)


def _leave_worker() -> None:
    """Have the worker end with its call, which may be never."""
    for worker in _workers:
        worker.is_left = True
    _workers.clear()


def _busy(function: Callable[[], T]) -> T:
    lib.devrt_busy(1)
    try:
        return function()
    finally:
        lib.devrt_busy(-1)


def call_apart(
    function: Callable[[], T],
    *,
    core: Any = None,
    on_late: Callable[[T], object] | None = None,
    speaker: Speaker | None = None,
) -> T:
    """Call a function that is inside a plugin for long.

    On the main thread, where handlers of signals run, another thread calls it: what a handler
    raises is raised at once. The call then goes on, so that ``function`` must own what it uses, and
    the native half of the client, ``core``, is kept until it has returned. ``on_late`` is called
    with what it returns where nobody waits for that any more; ``speaker`` says what is waited for.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or lib.devrt_is_inside():
        return _busy(function)
    call = _Call(function, on_late)
    release = None
    if core is not None:
        lib.devrt_core_hold(core)
        release = functools.partial(lib.devrt_core_let_go, core)
    if not _start(call, release):
        call.run(release)
    try:
        return call.wait(speaker)
    except BaseException:  # of a handler, or the call's own
        if call.give_up():
            _leave_worker()
            note_interrupt(call.goes_on, speaker)
        raise


def begin_exit() -> None:
    """Note that the interpreter exits: a wait that takes long says what it is for."""
    _Process.is_exiting = True


# Not as a handler of C's: plugins register theirs later, and those would run before.
_finish: Any = ctypes.pythonapi.Py_AtExit
_finish.argtypes = [ctypes.c_void_p]
_finish(lib.devrt_finish_address())
