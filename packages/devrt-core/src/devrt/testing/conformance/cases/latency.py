"""Small calls: how long they take beside the same calls of devrt's own backend for the CPU."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.contract import Client
from devrt.errors import DevrtError, InvalidArgumentError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, not_applicable, require
from devrt.testing.conformance.programs import DOUBLE, takes_programs
from devrt.testing.conformance.subject import Subject

VARIABLE = "DEVRT_CONFORM_LATENCY"

BLOCKS, CALLS = 15, 100
X = np.arange(8, dtype=np.float32)


def budget() -> float:
    """Return how many times as long as devrt-cpu's a small call may take.

    Raises
    ------
    InvalidArgumentError
        If the environment names what is no positive number.
    """
    given = os.environ.get(VARIABLE, "50")
    try:
        number = float(given)
    except ValueError:
        number = 0.0
    if not number > 0:
        msg = f"{VARIABLE} is {given!r}. Give a number above 0: times of devrt-cpu's calls."
        raise InvalidArgumentError(msg, variable=VARIABLE, value=given)
    return number


def _reference(subject: Subject) -> Client:
    """Return a client of devrt-cpu; not applicable where there is none."""
    require(subject.platform != "cpu", "it is what others are measured beside")
    is_simulated = "(simulated)" in subject.device.device_kind
    require(not is_simulated, "its devices are simulated: their speed says nothing")
    from devrt.runtime import Runtime

    try:
        return Runtime(environ={"DEVRT_PLATFORMS": "cpu"}).make_client("cpu", {})
    except DevrtError as error:
        not_applicable(f"there is no devrt-cpu to measure beside: {error}")


def _ratio(mine: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Return the ratio of the best of blocks of calls, and the time of a call of the best.

    What else runs on the machine makes blocks longer, and none shorter.
    """
    for _ in range(CALLS):
        mine()
        theirs()
    blocks = [(_timed(mine), _timed(theirs)) for _ in range(BLOCKS)]
    own, other = (min(times) for times in zip(*blocks, strict=True))
    return own / other, own / CALLS


def _timed(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        call()
    return time.perf_counter() - started


def _within_budget(what: str, mine: Callable[[], Any], theirs: Callable[[], Any]) -> str:
    ratio, seconds = _ratio(mine, theirs)
    figures = f"{what}: {seconds * 1e6:.1f} us, {ratio:.2f} times devrt-cpu's"
    most = budget()
    expect(ratio <= most, expected=f"at most {most:g} times devrt-cpu's", came=figures)
    return figures


@case("transfer", "putting a small array stays within its budget beside devrt-cpu",
      contract="Client.buffer_from_pyval, which each device_put calls", deadline=60)  # fmt: skip
def latency_of_a_put(subject: Subject) -> str:
    cpu = _reference(subject)
    client, device, other = subject.client, subject.device, cpu.local_devices()[0]
    return _within_budget(
        "a put of 8 floats",
        lambda: client.buffer_from_pyval(X, device),
        lambda: cpu.buffer_from_pyval(X, other),
    )


@case("transfer", "reading a small array stays within its budget beside devrt-cpu",
      contract="Buffer.__array__, which each numpy.asarray calls", deadline=60)  # fmt: skip
def latency_of_a_get(subject: Subject) -> str:
    cpu = _reference(subject)
    mine, theirs = subject.client.buffer_from_pyval(X), cpu.buffer_from_pyval(X)
    return _within_budget("a get of 8 floats", lambda: np.asarray(mine), lambda: np.asarray(theirs))


@case("execute", "calling a small program stays within its budget beside devrt-cpu",
      contract="LoadedExecutable.execute, which each call of a jitted function calls",
      deadline=60)  # fmt: skip
def latency_of_a_call(subject: Subject) -> str:
    takes_programs(subject)
    cpu = _reference(subject)
    require("stablehlo" in cpu.capabilities.formats, "devrt-cpu has no compiler here")
    one, two = subject.client.compile_and_load(DOUBLE), cpu.compile_and_load(DOUBLE)
    mine, theirs = subject.client.buffer_from_pyval(X), cpu.buffer_from_pyval(X)
    return _within_budget(
        "a call that adds 8 floats",
        lambda: one.execute([mine])[0].block_until_ready(),
        lambda: two.execute([theirs])[0].block_until_ready(),
    )
