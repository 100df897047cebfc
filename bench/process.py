"""The driver's end of a worker: requests with a deadline, and no process left behind."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any

__all__ = ["Worker", "WorkerError"]


class WorkerError(RuntimeError):
    """A request that got no answer, or an answer that says why it failed."""


class Worker:
    """One worker process.

    Parameters
    ----------
    command
        What to start.
    env
        Its whole environment.
    cwd
        Where it runs.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], cwd: Path) -> None:
        self._errors = TemporaryFile()  # noqa: SIM115 - closed with the worker
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=dict(env),
                cwd=cwd,
                # A group of its own, so that what a library forks ends with it.
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            raise
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._process.stdout, selectors.EVENT_READ)
        self._pending = b""

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def ask(self, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """Send a request and return the reply.

        Raises
        ------
        WorkerError
            The reply carries an error, the process ended, or `timeout` seconds passed. The last
            two kill the process: what it would still say belongs to no request.
        """
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(dict(request)).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError):
            raise WorkerError(self._obituary()) from None
        reply: dict[str, Any] = json.loads(self._line(timeout))
        if "error" in reply:
            raise WorkerError(reply["error"])
        return reply

    def close(self) -> None:
        """Kill the process and everything it started, and wait for it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._selector.close()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            # Closing a pipe whose reader is gone flushes into it.
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def _line(self, timeout: float) -> bytes:
        assert self._process.stdout is not None
        deadline = time.monotonic() + timeout
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left <= 0 or not self._selector.select(left):
                self.close()
                raise WorkerError(f"no answer within {timeout:g} s; the worker was killed")
            chunk = os.read(self._process.stdout.fileno(), 1 << 16)
            if not chunk:
                raise WorkerError(self._obituary())
            self._pending += chunk
        line, self._pending = self._pending.split(b"\n", 1)
        return line

    def _obituary(self) -> str:
        """Say how the process ended, with the last line that it wrote."""
        if self._errors.closed:
            return "the worker was killed"
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        self._errors.seek(0)
        output = self._errors.read().decode(errors="replace").strip().splitlines()
        last = f": {output[-1]}" if output else ""
        code = self._process.returncode
        self.close()
        return f"the worker ended with status {code}{last}"
