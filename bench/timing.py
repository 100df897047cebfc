"""How one worker times one case: calibration, then blocks of samples."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from bench.case import Timed

__all__ = ["BLOCK_SECONDS", "SAMPLES", "Plan", "block", "calibrate"]

BLOCK_SECONDS = 0.020
SAMPLES = 5


@dataclass(frozen=True)
class Plan:
    """How a block is made: `samples` timings of `loops` calls each."""

    loops: int
    samples: int


def calibrate(timed: Timed, block_seconds: float = BLOCK_SECONDS) -> Plan:
    """Choose the loop count with which one block takes about `block_seconds`.

    A case that cannot fill a sample (its items are large) has shorter blocks; one that is longer
    than a whole block gets a single call a block. The calls made here are also the warm-up.
    """
    target = block_seconds / SAMPLES
    # The first call of anything is its slowest: filled caches, lazy imports, page faults.
    timed.seconds(1)
    loops, spent = 1, timed.seconds(1)
    while spent < target / 2 and loops < timed.max_loops:
        loops = min(timed.max_loops, loops * 4)
        spent = timed.seconds(loops)
    each = max(spent / loops, 1e-9)
    loops = max(1, min(timed.max_loops, round(target / each)))
    return Plan(loops, max(1, min(SAMPLES, round(block_seconds / (each * loops)))))


def block(timed: Timed, plan: Plan) -> list[float]:
    """Time one block; returns seconds per call, one value a sample.

    The cyclic collector is off while the clock runs, as in `timeit`, and runs between blocks:
    when it strikes is no property of the case, and one library hooks it.
    """
    gc.disable()
    try:
        return [timed.seconds(plan.loops) / plan.loops for _ in range(plan.samples)]
    finally:
        gc.enable()
        gc.collect()
