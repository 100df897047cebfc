"""``devrt launch``: several processes of a script on this machine, as one job."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import click

from devrt._support.orphans import end_with_parent
from devrt.distributed.ports import free_port

__all__ = ["launch"]

_TAIL_LINES = 40
_GRACE_SECONDS = 5.0  # from the request to stop to the kill
_DRAIN_SECONDS = 2.0  # what a process started may hold its output open
_CAUSE_SECONDS = 5.0  # between the end of a process that lost another, and of that one
_LOSSES = (
    "devrt.errors.PeerLostError: ",
    "devrt.errors.DistributedError: UNAVAILABLE: ",
    "devrt.errors.DistributedError: CANCELLED: ",  # of a service that process 0 ended
)
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stop(Exception):  # noqa: N818  no error: the user, or the system, ends the job
    """A signal came that ends the launcher."""


class _Rank:
    """One process of the job: what it prints, and how it ends."""

    def __init__(self, number: int, command: Sequence[str], environ: dict[str, str]) -> None:
        self.number = number
        self.tail: collections.deque[str] = collections.deque(maxlen=_TAIL_LINES)
        self.process = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # its children are stopped with it
            preexec_fn=partial(end_with_parent, os.getpid()),  # no thread is there yet
        )
        self.reader: threading.Thread | None = None

    @property
    def status(self) -> int:
        """The exit status, as a shell has it: 128 and the number of a signal."""
        code = self.process.returncode
        return 128 - code if code < 0 else code

    @property
    def has_lost_another(self) -> bool:
        """Whether it failed as another process was lost, or the service with process 0."""
        return self.process.returncode == 1 and any(x.startswith(_LOSSES) for x in self.tail)

    def signal(self, number: int) -> None:
        """Send a signal to the process and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def launch(count: int, command: Sequence[str], port: int | None) -> int:
    """Run a command as so many processes; return the status of the first that failed, else 0.

    Parameters
    ----------
    count
        How many processes.
    command
        The script and its arguments.
    port
        That of the coordination service; one that is free when omitted.
    """
    address = f"localhost:{free_port() if port is None else port}"
    ended: queue.SimpleQueue[_Rank] = queue.SimpleQueue()
    lock = threading.Lock()
    ranks: list[_Rank] = []
    failed: _Rank | None = None
    with _raised_signals():
        try:
            for number in range(count):
                ranks.append(_started(number, count, command, address))
            for rank in ranks:
                _follow(rank, lock, ended)
            failed = _first_failure(count, ended)
        except _Stop as stop:
            return 128 + int(stop.args[0])
        finally:
            _stop(ranks)
    if failed is not None:
        _show_failure(failed)
    return 0 if failed is None else failed.status


def _started(number: int, count: int, command: Sequence[str], address: str) -> _Rank:
    environ = {
        **os.environ,
        "DEVRT_COORDINATOR_ADDRESS": address,
        "DEVRT_NUM_PROCESSES": str(count),
        "DEVRT_PROCESS_ID": str(number),
        "PYTHONUNBUFFERED": "1",  # lines come as they are printed, and none is lost at a kill
    }
    return _Rank(number, [sys.executable, *command], environ)


def _follow(rank: _Rank, lock: threading.Lock, ended: queue.SimpleQueue[_Rank]) -> None:
    """Print what a process prints, each line after its number; report its end."""

    def follow() -> None:
        assert rank.process.stdout is not None
        with rank.process.stdout as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip("\n")
                rank.tail.append(text)
                with lock, contextlib.suppress(OSError):  # unread output must not stop the job
                    click.echo(f"[{rank.number}] {text}")

    def wait() -> None:
        if rank.process.wait():
            rank.signal(signal.SIGKILL)  # what it started
        reader.join(_DRAIN_SECONDS)
        ended.put(rank)

    reader = rank.reader = threading.Thread(target=follow, daemon=True)
    reader.start()
    threading.Thread(target=wait, daemon=True).start()


def _first_failure(count: int, ended: queue.SimpleQueue[_Rank]) -> _Rank | None:
    """Return the process that failed first; not one that ended because that one did."""
    consequence: _Rank | None = None
    end = 0.0
    for _ in range(count):
        try:
            left = None if consequence is None else max(0.0, end - time.monotonic())
            rank = ended.get(timeout=left)
        except queue.Empty:
            break
        if rank.process.returncode and not rank.has_lost_another:
            return rank
        if rank.process.returncode and consequence is None:
            consequence, end = rank, time.monotonic() + _CAUSE_SECONDS
    return consequence


def _stop(ranks: Sequence[_Rank]) -> None:
    """End what still runs: with a request first, then by force; what it started, too."""
    running = [rank for rank in ranks if rank.process.poll() is None]
    for rank in running:
        rank.signal(signal.SIGTERM)
        rank.signal(signal.SIGCONT)  # one that is stopped would not get it
    deadline = time.monotonic() + _GRACE_SECONDS
    for rank in running:
        with contextlib.suppress(subprocess.TimeoutExpired):
            rank.process.wait(max(0.0, deadline - time.monotonic()))
    for rank in running:
        rank.signal(signal.SIGKILL)
    for rank in ranks:
        rank.process.wait()
        if rank.reader is not None:
            rank.reader.join(_DRAIN_SECONDS)


def _show_failure(rank: _Rank) -> None:
    code = rank.process.returncode
    how = f"by signal {-code}" if code < 0 else f"with status {code}"
    click.echo(f"devrt: process {rank.number} failed {how}, and the others were stopped.", err=True)
    for line in rank.tail:
        click.echo(f"[{rank.number}] {line}", err=True)


@contextlib.contextmanager
def _raised_signals() -> Iterator[None]:
    """Let signals that end the launcher end its processes: they are in sessions of their own."""

    def stop(number: int, _: Any) -> None:
        for each in _STOPPING:
            signal.signal(each, signal.SIG_IGN)  # the next must not interrupt the stopping
        raise _Stop(number)

    former = {number: signal.signal(number, stop) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
