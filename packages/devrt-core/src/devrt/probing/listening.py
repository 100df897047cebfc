"""Listening to a child process that may do anything: bounded memory, and an end in any case."""

from __future__ import annotations

import abc
import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from devrt.probing.parallel import GLANCE_SECONDS, kill_group
from devrt.probing.replying import MAX_LINE

__all__ = ["Lines", "Listener", "Replies", "last_lines", "listen", "signal_name"]

_TAIL = 1 << 14
_LINES = 12
_CHUNK = 1 << 16
_POLL = 0.05
_Sink = Callable[[bytes], object]
_CRASH = "Fatal Python error"  # faulthandler's first words


class Lines(abc.ABC):
    """The lines that carry the token, as they come; ``saw_garbage`` tells of others."""

    def __init__(self, token: str) -> None:
        self.saw_garbage = False
        self.token = token
        self._partial = bytearray()

    def feed(self, chunk: bytes) -> None:
        """Take what was read from the pipe."""
        self._partial += chunk
        *lines, rest = self._partial.split(b"\n")
        for line in lines:
            self._take(bytes(line))
        if len(rest) > MAX_LINE:
            self.saw_garbage = True
            rest = rest[:0]
        self._partial = bytearray(rest)

    def _take(self, line: bytes) -> None:
        if not line:
            return
        given, _, text = line.partition(b" ")
        message = _json_object(text) if given == self.token.encode() else None
        if message is None or not self.take(message):
            self.saw_garbage = True

    @abc.abstractmethod
    def take(self, message: dict[str, Any]) -> bool:
        """Take one reply; return False for one that means nothing."""


class Replies(Lines):
    """What a child says that examines one plugin.

    ``phase`` is the one that the child reported last; ``final`` its answer, with ``facts``, or with
    ``error`` and ``message``; ``kept`` its answer should it end before it gives that, as its
    findings are being collected.
    """

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.phase = "start"
        self.final: dict[str, Any] | None = None
        self.kept: dict[str, Any] | None = None

    def take(self, message: dict[str, Any]) -> bool:
        """Take a phase, an answer that is kept, or the answer."""
        if isinstance(message.get("phase"), str):
            self.phase = message["phase"]
        elif isinstance(message.get("kept"), dict):
            self.kept = message["kept"]
        elif "error" in message or isinstance(message.get("facts"), dict):
            self.final = message
        else:
            return False
        return True


def _json_object(text: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


class Listener:
    """Reads what a child answers and prints, and knows when it ended.

    ``output`` is the end of what it printed; of that and of its answers a bounded part is held.
    Leaving the ``with`` block kills the child with its group and reaps it.
    """

    def __init__(self, child: subprocess.Popen[bytes], read_end: int, lines: Lines) -> None:
        assert child.stdout is not None
        self.output = bytearray()
        self._child = child
        self._sinks: dict[int, _Sink] = {
            read_end: lines.feed,
            child.stdout.fileno(): self.output.extend,
        }
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> Listener:
        self._selector = self._resources.enter_context(selectors.DefaultSelector())
        self._ended = self._resources.enter_context(_end_of(self._child))
        for descriptor in self._sinks:
            os.set_blocking(descriptor, False)
            self._selector.register(descriptor, selectors.EVENT_READ)
        if self._ended is not None:
            self._selector.register(self._ended, selectors.EVENT_READ)
        return self

    def __exit__(self, *exc_info: object) -> None:
        kill_group(self._child)
        self._child.wait()
        self._resources.close()
        self.drain()

    def listen(self, timeout: float, is_enough: Callable[[], bool] = lambda: False) -> bool:
        """Read until the child ends or what came is enough; return False at the deadline."""
        deadline = time.monotonic() + timeout
        while not is_enough() and not self.has_ended():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            patience = GLANCE_SECONDS if self._ended is not None else _POLL
            _drain(self._selector, self._sinks, min(left, patience))
            del self.output[:-_TAIL]  # a plugin may print for ever
        return True

    def has_ended(self) -> bool:
        """Return whether the child ended."""
        return self._child.returncode is not None or _has_ended(self._child)

    def drain(self) -> None:
        """Take what the child has written so far."""
        for descriptor, sink in self._sinks.items():
            _drain_rest(descriptor, sink)
        del self.output[:-_TAIL]


def listen(
    child: subprocess.Popen[bytes], read_end: int, lines: Lines, timeout: float
) -> tuple[bytes, bool]:
    """Read until the child ends or the deadline passes; then kill its group and reap it.

    Returns the end of what it printed, and whether it had to be stopped.
    """
    with Listener(child, read_end, lines) as listener:
        timed_out = not listener.listen(timeout)
    return bytes(listener.output), timed_out


@contextlib.contextmanager
def _end_of(child: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """Give a descriptor that becomes readable when the child ends; None where there is none."""
    try:
        descriptor = os.pidfd_open(child.pid)
    except (AttributeError, OSError):
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Return whether the child ended, and leave it unreaped so that its number stays its own."""
    if not hasattr(os, "waitid"):
        return child.poll() is not None
    try:
        found = os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True  # this process ignores SIGCHLD, or somebody else reaped it
    return found is not None


def _drain(selector: selectors.BaseSelector, sinks: Mapping[int, _Sink], patience: float) -> None:
    for key, _ in selector.select(patience):
        if key.fd not in sinks:
            continue  # the child's end
        chunk = _read(key.fd)
        if chunk:
            sinks[key.fd](chunk)
        elif chunk is not None:
            selector.unregister(key.fd)  # its end was closed; it would be readable for ever


def _drain_rest(descriptor: int, sink: _Sink) -> None:
    """Take what is in the pipe, and no more: a grandchild may be writing still."""
    for _ in range(64):
        chunk = _read(descriptor)
        if not chunk:
            return
        sink(chunk)


def _read(descriptor: int) -> bytes | None:
    """Return what is there: nothing at the end, None where nothing has come yet."""
    try:
        return os.read(descriptor, _CHUNK)
    except BlockingIOError:
        return None


def signal_name(number: int) -> str:
    """Return a signal's name, or its number in words."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def last_lines(output: bytes) -> str:
    """Return the end of what was printed, or the beginning of the stack of a crash.

    Control characters are replaced, so that showing it does nothing to a terminal.
    """
    text = output.decode("utf-8", errors="replace")
    lines = [_printable(line) for line in text.splitlines() if line.strip()]
    crash = next((i for i, line in enumerate(lines) if line.startswith(_CRASH)), None)
    if crash is not None:
        return "\n".join(lines[max(0, crash - 3) : crash + _LINES])
    return "\n".join(lines[-_LINES:])


def _printable(line: str) -> str:
    shown = "".join(
        c if c.isprintable() or c == "\t" else "\N{REPLACEMENT CHARACTER}" for c in line
    )
    return shown if len(shown) <= 400 else f"{shown[:400]}..."
