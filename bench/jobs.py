"""The processes of a job that a subject starts beside each other."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack

from bench.sides import ROOT, variables

__all__ = ["JobError", "JobProcess", "free_port", "start"]


class JobError(RuntimeError):
    """A process of a job that failed, with the last line that it wrote."""


class JobProcess:
    """A process of a job, which reports when it is ready."""

    def __init__(self, command: list[str], env: Mapping[str, str], timeout: float) -> None:
        self._timeout = timeout
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=dict(env), cwd=ROOT,
        )  # fmt: skip

    def ready(self) -> None:
        """Wait for its first line."""
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            self.result()

    def go(self) -> None:
        """Write it a line."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def close_input(self) -> None:
        """Let it come to its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    def result(self) -> dict[str, float]:
        """Wait for the end and return what was printed last."""
        try:
            printed, errors = self.process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired as error:
            raise JobError(str(error)) from error
        if self.process.returncode:
            last = errors.strip().splitlines() or [f"status {self.process.returncode}"]
            raise JobError(last[-1])
        found: dict[str, float] = json.loads(printed.strip().splitlines()[-1])
        return found

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()


def start(
    stack: ExitStack, python: str, side: str, module: str, *arguments: object, timeout: float
) -> JobProcess:
    """Start ``python -m module side arguments``; it ends with the stack."""
    command = [python, "-m", module, side, *map(str, arguments)]
    made = JobProcess(command, variables(side), timeout)
    stack.callback(made.end)
    return made


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
