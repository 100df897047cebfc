"""Reductions over the devices of several processes: a jitted psum, beside JAX's over Gloo."""

from __future__ import annotations

import sys
from functools import partial

from bench.case import Spec, Sweep, choose
from bench.driver import Context
from bench.environments import Environment
from bench.figures import summarize
from bench.jobs import in_turn, new_job
from bench.rows import Outcome, Row

__all__ = ["SPECS", "measure", "run_job"]

_COUNTS = (2, 4)
_SECONDS = 120.0  # of the rounds of one number of processes
_SIZES = (8, 8 << 10, 1 << 20, 16 << 20, 256 << 20)
_LARGE = 16 << 20

SPECS = [
    Spec(
        f"{nbytes} B, {count} processes",
        sweep=Sweep(f"psum of {count} processes", "B", nbytes),
        is_large=nbytes > _LARGE,
    )
    for count in _COUNTS
    for nbytes in _SIZES
]
SPECS += [Spec(f"4 of {_LARGE} B at once, {count} processes") for count in _COUNTS]


def measure(context: Context) -> list[Row]:
    """Run whole jobs of both sides in turn; one row for each size and number of processes."""
    is_quick = context.options.is_quick
    specs = choose(SPECS, is_full=context.options.is_full, is_quick=is_quick)
    rows = []
    for count in _COUNTS:
        chosen = [spec for spec in specs if spec.name.endswith(f" {count} processes")]
        sizes = [f"4x{_LARGE}" if spec.sweep is None else str(int(spec.sweep.x)) for spec in chosen]
        print(f"  collectives: {count} processes", file=sys.stderr)
        sides = {name: context.environments[name] for name in ("devrt", "jax")}
        rounds = max(3, context.options.blocks // 4)
        job = partial(_job, count, sizes)
        seen, failed = in_turn(sides, job, rounds, _SECONDS)
        for spec, size in zip(chosen, sizes, strict=True):
            ours, theirs = (failed.get(name) or _outcome(seen[name], size) for name in sides)
            title = context.title("jax")
            rows.append(Row("collectives", spec.name, title, ours, theirs, "s", spec.sweep))
    return rows


def _job(
    count: int, sizes: list[str], environment: Environment, timeout: float
) -> dict[str, float]:
    return run_job(environment, count, sizes, timeout)


def _outcome(jobs: list[dict[str, float]], size: str) -> Outcome:
    values = [job[size] for job in jobs]
    return Outcome(summarize([[value] for value in values]), blocks=values)


def run_job(
    environment: Environment, count: int, sizes: list[str], timeout: float = 300
) -> dict[str, float]:
    """Run a job of `count` processes.

    Returns
    -------
    dict
        For each size, as text, the seconds of one reduction in the slowest process.

    Raises
    ------
    JobError
        A process failed, or the job took longer than `timeout` seconds.
    """
    with new_job(environment, "bench.reduce_process", timeout) as (begin, address):
        children = [begin(address, count, number, *sizes) for number in range(count)]
        found = [child.result() for child in children]
    return {size: max(each[size] for each in found) for size in found[0]}
