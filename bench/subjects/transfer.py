"""Arrays that one process pulls from another, beside JAX's server and what else carries bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from itertools import count as numbers
from typing import Any

from bench.case import Spec, Sweep, choose
from bench.driver import Context
from bench.environments import Environment
from bench.figures import summarize
from bench.rows import Outcome, Row
from bench.sides import ROOT, variables

__all__ = ["SPECS", "PullError", "Pulls", "measure"]

PEERS = ("jax", "grpc", "flight", "ucx")
_SIDES = ("devrt", *PEERS)
_MEBIBYTES = (1, 64, 256)
_STREAMS = (1, 4)
_PULLS = {1: 20, 64: 3, 256: 2}

SPECS = [
    Spec(
        f"{size} MiB, {streams} streams",
        PEERS,
        sweep=Sweep(f"pull over {streams} streams, by size", "B", size << 20),
        is_large=size > 64,
    )
    for streams in _STREAMS
    for size in _MEBIBYTES
]


class PullError(RuntimeError):
    """A process of a pull that failed, with the last line that it wrote."""


def measure(context: Context) -> list[Row]:
    """Pull on every side in turn; one row for each case and peer."""
    rows = []
    options = context.options
    specs = choose(SPECS, is_full=not options.is_quick, is_quick=options.is_quick)
    for streams in _STREAMS:
        chosen = [spec for spec in specs if spec.name.endswith(f", {streams} streams")]
        with ExitStack() as stack:
            sides = _Sides(context, stack, streams)
            for spec in chosen:
                print(f"  transfer: {spec.name}", file=sys.stderr)
                outcomes = sides.measure(spec, max(3, options.blocks // 3))
                rows += [_row(context, spec, outcomes, peer) for peer in PEERS]
    return rows


def _row(context: Context, spec: Spec, outcomes: Mapping[str, Outcome], peer: str) -> Row:
    title, note = context.title(peer), "" if peer == "jax" else "bytes alone, no array"
    ours, theirs = outcomes["devrt"], outcomes[peer]
    return Row("transfer", spec.name, title, ours, theirs, "s", spec.sweep, note)


class _Sides:
    """The processes of every side that can be had."""

    def __init__(self, context: Context, stack: ExitStack, streams: int) -> None:
        self._pulls: dict[str, Pulls] = {}
        self._failed: dict[str, Outcome] = {}
        for name in _SIDES:
            try:
                made = Pulls(context.environments[name], streams)
            except PullError as error:
                self._failed[name] = Outcome(reason=f"{name}: {error}")
            else:
                stack.callback(made.close)
                context.versions.setdefault(name, {"version": made.version})
                self._pulls[name] = made

    def measure(self, spec: Spec, blocks: int) -> dict[str, Outcome]:
        assert spec.sweep is not None
        size = int(spec.sweep.x)
        seen: dict[str, list[list[float]]] = {name: [] for name in self._pulls}
        for block in range(-1, blocks):  # the first is thrown away
            for name in [name for name in seen if name not in self._failed]:
                try:
                    seconds = self._pulls[name].run(size, _PULLS[size >> 20])
                except PullError as error:
                    self._failed[name] = Outcome(reason=f"{name}: {error}")
                else:
                    seen[name] += [seconds] if block >= 0 else []
        return {name: self._failed.get(name) or _outcome(seen[name]) for name in _SIDES}


def _outcome(blocks: list[list[float]]) -> Outcome:
    return Outcome(summarize(blocks), blocks=[sorted(block)[len(block) // 2] for block in blocks])


class Pulls:
    """Two processes of one side: a server, and one that pulls from it.

    Parameters
    ----------
    environment
        Whose Python runs them.
    streams
        Over how many connections elements go.
    """

    def __init__(self, environment: Environment, streams: int) -> None:
        if environment.python is None:
            raise PullError(environment.reason)
        self._numbers = numbers()
        self._processes: list[subprocess.Popen[str]] = []
        try:
            self._server = self._start(environment, "serve", streams)
            served = self._answer(self._server)
            self.version: str = served["version"]
            self._puller = self._start(environment, "pull", streams, served["address"])
            self._answer(self._puller)
        except BaseException:
            self.close()
            raise

    def run(self, size: int, count: int) -> list[float]:
        """Pull as many arrays of a size; return the seconds of each."""
        first = next(self._numbers) << 20
        for process in (self._server, self._puller):
            assert process.stdin is not None
            with suppress(OSError):  # of one that has ended; the answer says so
                process.stdin.write(f"{size} {first} {count}\n")
                process.stdin.flush()
            found = self._answer(process)
        seconds: list[float] = found["seconds"]
        return seconds

    def close(self) -> None:
        """End both processes."""
        for process in self._processes:
            process.kill()
            process.communicate()

    def _start(
        self, environment: Environment, role: str, *arguments: object
    ) -> subprocess.Popen[str]:
        assert environment.python is not None
        side = environment.peer.side
        command = [environment.python, "-m", "bench.pull_process", side, role]
        pipe = subprocess.PIPE
        made = subprocess.Popen(
            [*command, *map(str, arguments)], stdin=pipe, stdout=pipe, stderr=pipe,
            text=True, env=variables(side), cwd=ROOT,
        )  # fmt: skip
        self._processes.append(made)
        return made

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):  # some libraries print warnings
                found: dict[str, Any] = json.loads(line)
                return found
        _, errors = process.communicate()
        raise PullError((errors.strip().splitlines() or [f"status {process.returncode}"])[-1])
