"""A job of several processes: connecting, barriers, keys, and the memory of its service."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from statistics import median

from bench.case import Spec, Sweep, choose
from bench.driver import Context
from bench.environments import Environment
from bench.figures import summarize
from bench.jobs import JobError, in_turn, new_job
from bench.rows import Outcome, Row

__all__ = ["SPECS", "JobError", "measure", "run_job"]

_MODULE = "bench.job_process"
_SECONDS = 60.0  # of the rounds of one number of processes
_COUNTS = (2, 8, 32)
_FORKED = (32, 128, 512)
_BRING_UP = "bring-up of processes forked from one, the slowest, by processes"
_SWEPT = {
    "connect": "connect, all at once, the slowest, by processes",
    "barrier": "barrier of all, by processes",
    "pair": "set and get of 64 bytes, each process at once, by processes",
}
_MEMORY = "resident memory of the service's process after that, by processes"

SPECS = [
    Spec(
        f"{count} processes",
        sweep=Sweep("a job by processes", "process", count),
        is_large=count > 8,
    )
    for count in _COUNTS
]
FORKED = [
    Spec(
        f"{count} forked processes",
        sweep=Sweep("bring-up by processes", "process", count),
        is_large=count > 32,
    )
    for count in _FORKED
]


def measure(context: Context) -> list[Row]:
    """Run whole jobs of every side in turn; one row for each quantity."""
    rows: list[Row] = []
    blocks = max(3, context.options.blocks // 3)
    for run, specs, quantities in (
        (run_job, SPECS, {**_SWEPT, "bytes": _MEMORY}),
        (run_bring_up, FORKED, {"connect": _BRING_UP}),
    ):
        for spec in choose(
            specs, is_full=not context.options.is_quick, is_quick=context.options.is_quick
        ):
            assert spec.sweep is not None
            count = int(spec.sweep.x)
            print(f"  coordination: {spec.name}", file=sys.stderr)
            sides = {name: context.environments[name] for name in ("devrt", "jax")}
            job = partial(_job, run, count)
            seen, failed = in_turn(sides, job, blocks, _SECONDS)
            rows += _rows(context, count, seen, failed, quantities)
    return rows


def _job(
    run: Callable[[Environment, int, float], dict[str, float]],
    count: int,
    environment: Environment,
    timeout: float,
) -> dict[str, float]:
    return run(environment, count, timeout)


def _rows(
    context: Context,
    count: int,
    seen: Mapping[str, list[dict[str, float]]],
    failed: Mapping[str, Outcome],
    quantities: Mapping[str, str],
) -> list[Row]:
    def outcome(name: str, quantity: str) -> Outcome:
        values = [job[quantity] for job in seen[name]]
        return failed.get(name) or Outcome(summarize([[v] for v in values]), blocks=values)

    def row(quantity: str, what: str, unit: str) -> Row:
        ours, theirs = outcome("devrt", quantity), outcome("jax", quantity)
        sweep = Sweep(what, "process", count)
        return Row(
            "coordination", f"{what}, {count}", context.title("jax"), ours, theirs, unit, sweep
        )

    units = {"bytes": "B"}
    return [row(name, what, units.get(name, "s")) for name, what in quantities.items()]


def run_bring_up(environment: Environment, count: int, timeout: float = 300) -> dict[str, float]:
    """Have many processes, forked from one, connect to their service at once.

    Returns
    -------
    dict
        Seconds: ``connect`` of the slowest, from before the first fork.

    Raises
    ------
    JobError
        A process failed, or the job took longer than `timeout` seconds.
    """
    with new_job(environment, _MODULE, timeout) as (begin, address):
        begin("service", address, count).ready()
        clients = begin("forked", address, count)
        clients.ready()
        clients.go()
        return clients.result()


def run_job(environment: Environment, count: int, timeout: float = 180) -> dict[str, float]:
    """Run a job of `count` processes beside its service.

    Returns
    -------
    dict
        Seconds: ``connect`` of the slowest process, one ``barrier``, one ``pair`` of a set and a
        get in each process; ``bytes`` of the service's process.

    Raises
    ------
    JobError
        A process failed, or the job took longer than `timeout` seconds.
    """
    with new_job(environment, _MODULE, timeout) as (begin, address):
        service = begin("service", address, count)
        service.ready()
        clients = [begin("client", address, count, number) for number in range(count)]
        for client in clients:
            client.ready()
        for client in clients:
            client.go()
        found = [client.result() for client in clients]
        service.close_input()
        memory = service.result()["bytes"]
    return {
        "connect": max(each["connect"] for each in found),
        "barrier": median(each["barrier"] for each in found),
        "pair": median(each["pair"] for each in found),
        "bytes": memory,
    }
