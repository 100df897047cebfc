"""The processes of a job that a subject starts beside each other."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

from bench.environments import Environment
from bench.rows import Outcome
from bench.sides import ROOT, variables

__all__ = ["JobError", "JobProcess", "free_port", "in_turn", "new_job", "start"]

Figures = dict[str, float]


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
            raise JobError(f"a process did not end within {error.timeout:g} s") from error
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


@contextmanager
def new_job(
    environment: Environment, module: str, timeout: float
) -> Iterator[tuple[Callable[..., JobProcess], str]]:
    """Yield what starts a process of a job, and the address where its processes meet.

    Raises
    ------
    JobError
        If there is no Python for that side.
    """
    if environment.python is None:
        raise JobError(environment.reason)
    with ExitStack() as stack:
        side = environment.peer.side
        begin = partial(start, stack, environment.python, side, module, timeout=timeout)
        yield begin, f"127.0.0.1:{free_port()}"


def in_turn(
    environments: Mapping[str, Environment],
    run: Callable[[Environment, float], Figures],
    rounds: int,
    seconds: float,
) -> tuple[dict[str, list[Figures]], dict[str, Outcome]]:
    """Run the job of each side so often, one after the other, as long as there is time.

    Parameters
    ----------
    environments
        The sides, by name.
    run
        Runs a job, which may take so many seconds.
    rounds
        How often, at most.
    seconds
        After these no further round begins; the first always does, and each of its jobs may take
        so long.

    Returns
    -------
    tuple of dict
        The figures of each side, and why one has failed.
    """
    seen: dict[str, list[Figures]] = {name: [] for name in environments}
    failed: dict[str, Outcome] = {}
    end = time.monotonic() + seconds
    for number in range(rounds):
        if number and time.monotonic() >= end:
            print(f"    {number} of {rounds} rounds in {seconds:g} s", file=sys.stderr)
            break
        for name in [name for name in environments if name not in failed]:
            try:
                seen[name].append(run(environments[name], seconds))
            except JobError as error:
                failed[name] = Outcome(reason=f"{name}: {error}")
    return seen, failed


def free_port() -> int:
    """Return a port of this machine that nobody listens at."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
