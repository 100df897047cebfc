"""Reports as tables for a terminal."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

__all__ = [
    "STATE_STYLES",
    "Output",
    "human_bytes",
    "plain",
    "show_backends",
    "show_devices",
    "waiting",
]

_GAP = 2  # blanks between columns
_INDENT = 4
_ENOUGH = 40  # characters in which sentences still read well
_SHORT = 24  # characters of what is no sentence

STATE_STYLES = {
    "chosen": "bold green",
    "eligible": "green",
    "shadowed": "yellow",
    "excluded": "dim",
    "unavailable": "yellow",
    "broken": "bold red",
    "adds": "cyan",
}


class Output:
    """Lines and tables: wrapped and coloured for a terminal, one row a line for anything else.

    Parameters
    ----------
    stderr
        Whether it goes to standard error.
    """

    def __init__(self, stderr: bool = False) -> None:
        self._console = Console(stderr=stderr, highlight=False, markup=False, emoji=False)

    def line(self, text: str | Text = "", style: str = "") -> None:
        """Print one piece of text, which may have several lines."""
        words = text if isinstance(text, Text) else Text(plain(text), style)
        self._console.print(words, soft_wrap=not self._console.is_terminal)

    def sentences(self, text: str | Text, style: str = "", indent: int = 2) -> None:
        """Print what belongs to the line above it: each line is indented, by its own blanks too."""
        words = text if isinstance(text, Text) else Text(plain(text), style)
        width = self._console.width if self._console.is_terminal else sys.maxsize
        for line in words.split("\n", allow_blank=True):
            own = len(line.plain) - len(line.plain.lstrip(" "))
            blanks = " " * (indent + own)
            for part in line[own:].wrap(self._console, width - len(blanks), overflow="fold"):
                part.rstrip()
                self.line(Text(blanks) + part)

    def command(self, text: str | Text) -> None:
        """Print a line that is copied: it is not broken, however narrow the terminal."""
        words = text if isinstance(text, Text) else Text(plain(text))
        self._console.print(words, soft_wrap=True)

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
        """Print rows below headings; off a terminal aligned, neither wrapped nor padded.

        The last column is the one that says most. On a terminal it has what the others leave, and
        where that is little it goes below its row.
        """
        body = [[c if isinstance(c, Text) else Text(plain(c)) for c in row] for row in rows]
        if not self._console.is_terminal:
            body = [[Text(" ".join(cell.plain.split())) for cell in row] for row in body]
        lines = [[Text(heading, "bold") for heading in headings], *body]
        widths = [max(cell.cell_len for cell in column) for column in zip(*lines, strict=True)]
        if not self._console.is_terminal:
            self._lines(lines, widths)
            return
        gaps = _GAP * (len(widths) - 1)
        left = self._console.width - sum(widths[:-1]) - gaps
        if widths[-1] <= max(left, _SHORT):
            self._lines(lines, _narrowed(widths, self._console.width - gaps))
        elif left >= _ENOUGH:
            self._lines(lines, [*widths[:-1], left])
        else:
            narrowed = _narrowed(widths[:-1], self._console.width - gaps + _GAP)
            for line in lines:
                self._lines([line[:-1]], narrowed)
                self.sentences(line[-1], indent=_INDENT)

    def _lines(self, lines: Sequence[Sequence[Text]], widths: Sequence[int]) -> None:
        """Print cells in columns of these widths; one that is longer has several lines."""
        for line in lines:
            cells = [
                list(cell.wrap(self._console, width, overflow="fold") or [Text()])
                for cell, width in zip(line, widths, strict=True)
            ]
            for parts in itertools.zip_longest(*cells, fillvalue=Text()):
                self.line(_joined(parts, widths))


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show meanwhile, where standard error is a terminal, what is waited for and for how long."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what, total=None)
        yield


def _joined(cells: Sequence[Text], widths: Sequence[int]) -> Text:
    padded = [cell.copy() for cell in cells]
    for cell, width in zip(padded, widths, strict=True):
        cell.rstrip()
        cell.pad_right(width - cell.cell_len)
    joined = Text(" " * _GAP).join(padded)
    joined.rstrip()
    return joined


def _narrowed(widths: Sequence[int], total: int) -> list[int]:
    """Return widths that fit together, the widest narrowed first."""
    narrowed = list(widths)
    while sum(narrowed) > total and max(narrowed) > 1:
        narrowed[narrowed.index(max(narrowed))] -= 1
    return narrowed


def plain(text: str) -> str:
    """Return a plugin's words without what would act on the terminal."""
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def human_bytes(count: float | None) -> str:
    """Return a number of bytes with a binary unit, three digits or so."""
    if count is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(count) < 1024 or unit == "TiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    raise AssertionError


def show_devices(report: dict[str, Any]) -> None:
    """Print the devices, and on standard error the backends that failed.

    Their processes are shown where there are several.
    """
    several = any(row["process_index"] for row in report["devices"])
    rows = [
        [
            f"{row['platform']}:{row['id']}",
            row["kind"],
            *([str(row["process_index"])] if several else []),
            ", ".join(row["memories"]),
            human_bytes(row["bytes_in_use"]),
            human_bytes(row["bytes_limit"]),
        ]
        for row in report["devices"]
    ]
    out = Output()
    if rows:
        process = ["process"] if several else []
        out.table(["device", "kind", *process, "memories", "in use", "limit"], rows)
        out.line(f"default platform: {report['default']}")
    for failure in report["failures"]:
        Output(stderr=True).line(f"devrt: {failure['type']}: {failure['message']}", "red")


def show_backends(report: dict[str, Any]) -> None:
    """Print the backends, the policy in force, and what is wrong if none is chosen."""
    rows = [
        [
            row["platform"],
            f"{row['distribution']} {row['version']}".strip(),
            _or_dash(row["priority"]),
            {True: "yes", False: "no", None: "-"}[row["experimental"]],
            Text(row["state"], STATE_STYLES[row["state"]]),
            " ".join(filter(None, (_sentence(_why(row)), row["remedy"]))),
        ]
        for row in report["backends"]
    ]
    out = Output()
    if rows:
        headings = ("platform", "distribution", "priority", "experimental", "state", "reason")
        out.table(headings, rows)
    policy = report["policy"]
    if policy["platforms"]:
        out.line(f"allowed: {', '.join(policy['platforms'])} ({policy['source']})")
    if report["problem"]:
        message = f"devrt: {report['problem_type']}: {report['problem']}"
        Output(stderr=True).line(message, "red")


def _why(row: dict[str, Any]) -> str:
    return "; ".join(filter(None, (row["reason"].rstrip("."), row["description"])))


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _sentence(text: str) -> str:
    return text if text.endswith(".") or not text else f"{text}."
