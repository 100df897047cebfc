"""Programs that a case runs in an interpreter of their own."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from typing import Any, NamedTuple

from devrt.testing.conformance.clock import Queueing
from devrt.testing.conformance.expect import Failure, expect

__all__ = ["Ended", "answer_of", "run_program"]


_PRINTS_ITS_STACKS = 2.0  # seconds
_LONGEST = 500  # characters of each part that a failure shows


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

    For as long as a busy machine let it wait for a processor, it has more time. The failure has
    what it printed, and where it was. It stays in the group of the case's process, with which it is
    ended at the case's deadline.
    """
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-P", "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as child:
        try:
            out, err = _until_the_end(child, timeout)
        finally:
            child.kill()
    return Ended(child.returncode, out, err)


def _until_the_end(child: subprocess.Popen[str], timeout: float) -> tuple[str, str]:
    """Return what a program printed until it ended; the failure of one that does not has it too."""
    queueing, seconds = Queueing(child.pid), timeout
    while seconds:
        try:
            return child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            seconds = queueing.more()
    with contextlib.suppress(ImportError, AttributeError):  # which only Linux has
        import resource

        resource.prlimit(child.pid, resource.RLIMIT_CORE, (0, 0))  # no file in the user's folder
    child.send_signal(signal.SIGABRT)  # Python prints the stack of each thread, and ends
    out, err = _rest(child)
    words, _, stacks = err.partition("Fatal Python error")
    parts = {
        "it printed": out.strip()[-_LONGEST:],
        "its last words": words.strip()[-_LONGEST:],
        "it was in": stacks[max(stacks.find("Current thread"), 0) :].strip()[:_LONGEST],
    }
    shown = "".join(f"; {what}: {text}" for what, text in parts.items() if text)
    raise Failure("a process that ends", f"one that runs after {timeout:g} s{shown}")


def _rest(child: subprocess.Popen[str]) -> tuple[str, str]:
    """Return what a program has printed, also where what it started keeps the pipes open."""
    try:
        return child.communicate(timeout=_PRINTS_ITS_STACKS)
    except subprocess.TimeoutExpired as late:
        return _text(late.output), _text(late.stderr)


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def answer_of(code: str, *arguments: str, timeout: float = 25.0) -> Any:
    """Run a program that must end well; return the JSON of the last line that it prints."""
    ended = run_program(code, *arguments, timeout=timeout)
    expect(ended.status == 0, expected="exit status 0", came=ended.how())
    try:
        return json.loads(ended.out.strip().splitlines()[-1])
    except (IndexError, ValueError):
        raise Failure("a program that runs to its end", f"no answer: {ended.how()}") from None
