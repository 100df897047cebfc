"""Holding a backend to the contract, and the kit's reports for a terminal."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from rich.text import Text

from devrt.cli.tables import Output, plain, waiting
from devrt.errors import InvalidArgumentError
from devrt.testing.conformance import (
    LEVELS,
    CaseResult,
    Diff,
    Report,
    Status,
    compare,
    conform,
    save_page,
)
from devrt.testing.conformance.cases import CaseList
from devrt.testing.conformance.coverage import TITLES
from devrt.testing.conformance.subject import find_subject
from devrt.testing.conformance.surroundings import environment_facts, subject_facts

__all__ = ["Shown", "run"]

_STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "bold red",
    Status.CRASHED: "bold red",
    Status.TIMED_OUT: "bold red",
    Status.NOT_APPLICABLE: "dim",
}


class Shown(Protocol):
    """What is printed: as JSON, or by a function of this module."""

    @property
    def ok(self) -> bool:
        """Whether the command ends with status 0."""

    def to_dict(self) -> dict[str, Any]:
        """Return what is printed as JSON has it."""


def run(
    subject: str,
    *,
    level: str | None,
    cases: Sequence[str],
    is_list: bool,
    report: str | None,
    page: str | None,
    diff: tuple[str, str] | None,
) -> tuple[Shown, Callable[[], None], int]:
    """Do what the command is for; return what to print, how for a terminal, and the status."""
    if is_list:
        listed = CaseList(level)
        return listed, functools.partial(_show_cases, listed), 0
    if diff:
        found = compare(*map(Report.load, diff))
        return found, functools.partial(_show_diff, found), int(not found.ok)
    _check_outputs(report, page)
    made, status = _conform(subject, level, cases)
    if report is not None:
        _write(report, made.save)
    if page is not None:
        _write(page, functools.partial(save_page, made))
    return made, functools.partial(_show, made), status


def _conform(subject: str, level: str | None, cases: Sequence[str]) -> tuple[Report, int]:
    """Return the report and the status; where a signal ended the run, of the cases until then."""
    results: list[CaseResult] = []
    try:
        with _sigterm_raised(), waiting(f"holding {subject} to the contract"):
            made = conform(subject, level, cases=cases, on_result=results.append)
    except (_TerminatedError, KeyboardInterrupt) as error:
        number = signal.SIGTERM if isinstance(error, _TerminatedError) else signal.SIGINT
        facts = {**environment_facts(), "ended_early": number.name}
        about = subject_facts(find_subject(subject))
        return Report(about, facts, tuple(results)), 128 + number
    return made, int(not made.ok)


def _write(path: str, write: Callable[[str], None]) -> None:
    try:
        write(path)
    except OSError as error:
        msg = f"{path} cannot be written: {error.strerror}. Name another file, and run again."
        raise InvalidArgumentError(msg, path=path) from error


def _check_outputs(*paths: str | None) -> None:
    """Refuse what could not be written, before minutes are spent on it."""
    named = [path for path in paths if path]
    if len({os.path.realpath(path) for path in named}) < len(named):
        msg = f"{named[0]} cannot be both the report and the page. Name two files."
        raise InvalidArgumentError(msg, path=named[0])
    for path in named:
        folder = os.path.dirname(os.path.abspath(path))
        if os.path.isdir(path) or not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            msg = f"{path} cannot be written. Name a file in a folder that is there and writable."
            raise InvalidArgumentError(msg, path=path)


class _TerminatedError(BaseException):
    """The command is terminated."""


@contextlib.contextmanager
def _sigterm_raised() -> Iterator[None]:
    """Raise where the command is terminated, as for an interrupt: child processes are ended."""

    def terminate(*_: object) -> None:
        raise _TerminatedError

    if threading.current_thread() is not threading.main_thread():  # it alone may set a handler
        yield
        return
    former = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _show(report: Report) -> None:
    """Print a report: what failed with all that is known of it, and how many of each level."""
    out = Output()
    for result in report.failures:
        _show_failure(out, result)
    for reason, cases in report.not_applicable().items():
        out.line(f"not applicable: {reason}")
        out.sentences(", ".join(cases), "dim")
    _show_coverage(out, report)
    summary = report.summary()
    levels = [level for level in LEVELS if level in summary]
    rows: list[list[str | Text]] = [
        [level, *(_count(summary[level][status.value], status) for status in Status)]
        for level in levels
    ]
    out.line()
    out.table(("level", *(status.words for status in Status)), rows)
    style = "bold green" if report.ok else "bold red"
    out.line(Text(plain(f"{report.name}: {report.verdict()}"), style))
    _show_judgement(out, report)


def _show_judgement(out: Output, report: Report) -> None:
    """Print whether cases of all levels bear out what the plugin says of itself."""
    summary = report.summary()
    if not summary.keys() >= set(LEVELS) - {"c_api"}:
        return  # levels that were not run speak neither for nor against it
    for level, counts in summary.items():
        if counts[Status.NOT_APPLICABLE.value] == sum(counts.values()):
            out.line(f"no case of level {level} applies", "dim")
    if report.subject.get("library"):
        return  # no manifest says anything of it
    reasons, says = report.experimental_because(), report.subject.get("experimental")
    if says and not reasons:
        out.line("It says that it is experimental, and nothing in this report does.", "dim")
    elif says is False and reasons:
        out.line("It does not say that it is experimental. This report does:", "yellow")
        out.sentences("; ".join(reasons), "yellow")


def _show_coverage(out: Output, report: Report) -> None:
    """Print what of the C API was exercised; the names of what was called are in the report."""
    for part, names in report.coverage().items():
        if names:
            out.line(
                f"functions of the C API {TITLES[part]}: {len(names)}"
                if part != "extensions"
                else f"extensions of the C API: {len(names)}"
            )
            if part != "called":
                out.sentences(", ".join(names), "dim")


_CHANGES = {
    "new_failures": ("fails now", "bold red"),
    "fixed": ("passes now", "green"),
    "not_applied": ("not applicable now", "yellow"),
    "slower": ("slower", "yellow"),
    "added": ("new", "dim"),
    "removed": ("not run now", "yellow"),
}


def _show_diff(diff: Diff) -> None:
    """Print what is new between two reports."""
    out = Output()
    rows: list[list[str | Text]] = [
        [Text(words, style), change.id, _was(change.before), _was(change.after)]
        for kind, (words, style) in _CHANGES.items()
        for change in getattr(diff, kind)
    ]
    if rows:
        out.table(("what", "case", "before", "after"), rows)
    else:
        out.line("every case ended as before", "green")


def _was(result: CaseResult | None) -> str:
    if result is None:
        return "-"
    about = result.came or result.reason
    return f"{result.status.words}, {result.seconds:.3f} s" + (f": {about}" if about else "")


def _show_cases(listed: CaseList) -> None:
    """Print every case."""
    rows = [[case.id, case.title] for case in listed.cases]
    Output().table(("case", "what a right backend does"), rows)


def _show_failure(out: Output, result: CaseResult) -> None:
    out.line(Text.assemble((result.status.words, _STYLES[result.status]), f" {plain(result.id)}"))
    out.sentences(f"expected: {result.expected}")
    out.sentences(f"came: {result.came}")
    title = f": {result.title}" if result.title != result.expected else ""
    out.sentences(f"contract: {result.contract}{title}", "dim")
    for line in result.output.splitlines():
        out.line(Text(f"  | {plain(line)}", "dim"))


def _count(number: int, status: Status) -> Text:
    return Text(str(number), _STYLES[status] if number else "dim")
