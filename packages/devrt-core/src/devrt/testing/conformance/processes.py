"""Programs that a case runs in an interpreter of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, NamedTuple

from devrt.testing.conformance.expect import Failure, expect

__all__ = ["Ended", "answer_of", "run_program"]


class Ended(NamedTuple):
    """How a program ended, and what it printed."""

    status: int
    out: str
    err: str

    def how(self) -> str:
        """Return how it ended, and the last that it printed to standard error."""
        how = f"signal {-self.status}" if self.status < 0 else f"exit status {self.status}"
        return f"{how}; its last words: {self.err.strip()[-600:]}"


def run_program(code: str, *arguments: str, timeout: float = 25.0) -> Ended:
    """Run a program to its end, which is a failure of the case if it does not come in time.

    It stays in the group of the case's process, with which it is ended at the case's deadline.
    """
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as child:
        try:
            out, err = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Failure("a process that ends", f"one that runs after {timeout:g} s") from None
        finally:
            child.kill()
    return Ended(child.returncode, out, err)


def answer_of(code: str, *arguments: str, timeout: float = 25.0) -> Any:
    """Run a program that must end well; return the JSON of the last line that it prints."""
    ended = run_program(code, *arguments, timeout=timeout)
    expect(ended.status == 0, expected="exit status 0", came=ended.how())
    try:
        return json.loads(ended.out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise Failure("a program that runs to its end", f"no answer: {ended.how()}") from None
