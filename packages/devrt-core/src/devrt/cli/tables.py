"""Reports as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = [
    "STATE_STYLES",
    "Output",
    "human_bytes",
    "plain",
    "show_backends",
    "show_devices",
]

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

    def table(self, headings: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
        """Print rows below headings; off a terminal aligned, neither wrapped nor padded."""
        cells = [[c if isinstance(c, Text) else Text(plain(c)) for c in row] for row in rows]
        if self._console.is_terminal:
            table = Table(box=None, pad_edge=False, header_style="bold")
            for heading in headings:
                table.add_column(heading, overflow="fold")
            for row in cells:
                table.add_row(*row)
            self._console.print(table)
            return
        lines = [list(headings), *([" ".join(cell.plain.split()) for cell in row] for row in cells)]
        widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
        for line in lines:
            padded = (c + " " * (w - cell_len(c)) for c, w in zip(line, widths, strict=True))
            self.line("  ".join(padded).rstrip())


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
    """Print the devices, and on standard error the backends that failed."""
    rows = [
        [
            f"{row['platform']}:{row['id']}",
            row["kind"],
            str(row["process_index"]),
            ", ".join(row["memories"]),
            human_bytes(row["bytes_in_use"]),
            human_bytes(row["bytes_limit"]),
        ]
        for row in report["devices"]
    ]
    out = Output()
    out.table(("device", "kind", "process", "memories", "in use", "limit"), rows)
    out.line(f"default platform: {report['default']}")
    for failure in report["failures"]:
        Output(stderr=True).line(failure["message"], "red")


def show_backends(report: dict[str, Any]) -> None:
    """Print the backends, the policy in force, and what is wrong if none is chosen."""
    rows = [
        [
            row["platform"],
            f"{row['distribution']} {row['version']}".strip(),
            _or_dash(row["priority"]),
            {True: "yes", False: "no", None: "-"}[row["experimental"]],
            Text(row["state"], STATE_STYLES[row["state"]]),
            " ".join(filter(None, (_sentence(row["reason"]), row["remedy"]))),
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
        Output(stderr=True).line(report["problem"], "red")


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _sentence(text: str) -> str:
    return text if text.endswith(".") or not text else f"{text}."
