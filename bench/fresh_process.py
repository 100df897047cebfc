"""Run code in a fresh interpreter: wall time, peak resident memory, what it printed."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter

from bench.plugins import PREFIX

__all__ = ["ProcessError", "Run", "run_fresh"]

TIMEOUT = 120.0

# Read in the child and from its own address space: the system's ru_maxrss of a child begins at
# what its parent had when it forked, which is the driver's size and not the library's.
_EPILOGUE = f"""
import sys
if sys.platform == "linux":
    with open("/proc/self/status") as status:
        peak = [1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM")][0]
else:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
fakes = sum(name.startswith({PREFIX!r}) for name in sys.modules)
print('{{"peak_bytes": %d, "fakes": %d}}' % (peak, fakes))
"""


class ProcessError(RuntimeError):
    """A child that failed, with the last line that it wrote."""


@dataclass(frozen=True)
class Run:
    """One process: its wall time, its peak resident bytes, how many fake plugins it imported."""

    seconds: float
    peak_bytes: int
    fakes: int
    output: str


def run_fresh(python: str, code: str, env: Mapping[str, str], timeout: float = TIMEOUT) -> Run:
    """Run `code` in a fresh process of `python` and wait for its end.

    The time is from before the fork until after the exit, so teardown is part of it.

    Raises
    ------
    ProcessError
        It cannot be started, failed, or took longer than `timeout` seconds.
    """
    command = [python, "-c", f"{code}\n{_EPILOGUE}"]
    start = perf_counter()
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=dict(env),
            # Not the checkout: -c puts the working directory on the import path.
            cwd=tempfile.gettempdir(),
            timeout=timeout,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProcessError(str(error)) from error
    seconds = perf_counter() - start
    if done.returncode:
        output = done.stderr.strip().splitlines()
        raise ProcessError(output[-1] if output else f"status {done.returncode}")
    *printed, last = done.stdout.strip().splitlines()
    report = json.loads(last)
    return Run(seconds, report["peak_bytes"], report["fakes"], "\n".join(printed))
