"""Reports as tables for a terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

__all__ = [
    "STATE_STYLES",
    "console",
    "human_bytes",
    "plain",
    "show_backends",
    "show_devices",
    "table_of",
]

_FILE_WIDTH = 200

STATE_STYLES = {
    "chosen": "bold green",
    "eligible": "green",
    "shadowed": "yellow",
    "excluded": "dim",
    "unavailable": "yellow",
    "broken": "bold red",
    "adds": "cyan",
}


def console(stderr: bool = False) -> Console:
    """Return a console as wide as the terminal; wide enough for any row where there is none."""
    made = Console(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = _FILE_WIDTH
    return made


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


def table_of(*columns: str) -> Table:
    """Return an empty table with these headings."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def show_devices(report: dict[str, Any]) -> None:
    """Print the devices, and on standard error the backends that failed."""
    table = table_of("device", "kind", "process", "memories", "in use", "limit")
    for row in report["devices"]:
        table.add_row(
            f"{row['platform']}:{row['id']}",
            plain(row["kind"]),
            str(row["process_index"]),
            ", ".join(row["memories"]),
            human_bytes(row["bytes_in_use"]),
            human_bytes(row["bytes_limit"]),
        )
    out = console()
    out.print(table)
    out.print(f"default platform: {report['default']}")
    for failure in report["failures"]:
        console(stderr=True).print(Text(plain(failure["message"]), "red"))


def show_backends(report: dict[str, Any]) -> None:
    """Print the backends, the policy in force, and what is wrong if none is chosen."""
    table = table_of("platform", "distribution", "priority", "experimental", "state", "reason")
    for row in report["backends"]:
        table.add_row(
            plain(row["platform"]),
            plain(f"{row['distribution']} {row['version']}".strip()),
            _or_dash(row["priority"]),
            {True: "yes", False: "no", None: "-"}[row["experimental"]],
            Text(row["state"], STATE_STYLES[row["state"]]),
            plain(" ".join(filter(None, (_sentence(row["reason"]), row["remedy"])))),
        )
    out = console()
    if report["backends"]:
        out.print(table)
    policy = report["policy"]
    if policy["platforms"]:
        out.print(f"allowed: {', '.join(policy['platforms'])} ({policy['source']})")
    if report["problem"]:
        console(stderr=True).print(Text(plain(report["problem"]), "red"))


def _or_dash(value: object) -> str:
    return "-" if value is None else str(value)


def _sentence(text: str) -> str:
    return text if text.endswith(".") or not text else f"{text}."
