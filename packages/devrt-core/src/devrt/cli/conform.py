"""The conformance kit's report for a terminal."""

from __future__ import annotations

from rich.text import Text

from devrt.cli.tables import Output, plain
from devrt.testing.conformance import LEVELS, CaseResult, Report, Status, all_cases

__all__ = ["show", "show_cases"]

_STYLES = {
    Status.PASSED: "green",
    Status.FAILED: "bold red",
    Status.CRASHED: "bold red",
    Status.TIMED_OUT: "bold red",
    Status.NOT_APPLICABLE: "dim",
}


def show(report: Report) -> None:
    """Print a report: what failed with all that is known of it, and how many of each level."""
    out = Output()
    for result in report.failures:
        _show_failure(out, result)
    for reason, cases in report.not_applicable().items():
        out.line(f"not applicable: {reason}")
        out.sentences(", ".join(cases), "dim")
    summary = report.summary()
    levels = [level for level in LEVELS if level in summary]
    rows: list[list[str | Text]] = [
        [level, *(_count(summary[level][status.value], status) for status in Status)]
        for level in levels
    ]
    out.line()
    out.table(("level", *(status.words for status in Status)), rows)
    out.line(Text(_verdict(report), "bold green" if report.ok else "bold red"))


def show_cases() -> None:
    """Print every case."""
    out = Output()
    out.table(("case", "what a right backend does"), [[c.id, c.title] for c in all_cases()])


def _show_failure(out: Output, result: CaseResult) -> None:
    out.line(Text.assemble((result.status.words, _STYLES[result.status]), f" {plain(result.id)}"))
    out.sentences(f"expected: {result.expected}")
    out.sentences(f"came: {result.came}")
    out.sentences(f"contract: {result.contract}: {result.title}", "dim")
    for line in result.output.splitlines():
        out.line(Text(f"  | {plain(line)}", "dim"))


def _count(number: int, status: Status) -> Text:
    return Text(str(number), _STYLES[status] if number else "dim")


def _verdict(report: Report) -> str:
    subject = report.subject
    who = subject["distribution"] or subject["library"] or subject["platform"]
    name = f"{who} {subject['version']}".strip()
    if report.failures:
        return f"{name}: {len(report.failures)} of {len(report.results)} cases failed"
    if not report.ok:
        return f"{name}: no case passed, of {len(report.results)}"
    passed = sum(result.status is Status.PASSED for result in report.results)
    rest = len(report.results) - passed
    return f"{name}: {passed} cases passed" + (f", {rest} are not applicable" if rest else "")
