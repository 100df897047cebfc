"""What ``devrt heap`` shows: the call sites that hold the most memory."""

from __future__ import annotations

import datetime
import gzip
from pathlib import Path
from typing import Any

from devrt.cli.tables import Output, human_bytes
from devrt.wire.pprof import Sample, read_profile

__all__ = ["call_sites", "save", "show"]


def call_sites(path: str) -> dict[str, Any]:
    """Return what a saved profile holds, the call sites with the most bytes first.

    Keys: ``file``, ``time`` (ISO 8601, UTC), ``objects``, ``bytes``, and ``call_sites``: a list of
    ``call_site``, ``function``, ``objects``, ``bytes``, ``devices``, ``memory_kinds`` and
    ``arrays``.
    """
    profile = read_profile(Path(path).read_bytes(), path)
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    for sample in profile.samples:
        call_site, function = _call_site(sample)
        row = groups.setdefault(
            (call_site, function),
            {"call_site": call_site, "function": function, "objects": 0, "bytes": 0},
        )
        row["objects"] += sample.values.get("objects", 0)
        row["bytes"] += sample.values.get("space", 0)
        for key, label in (
            ("devices", "device"),
            ("memory_kinds", "memory_kind"),
            ("arrays", "array"),
        ):
            values = row.setdefault(key, [])
            if sample.labels.get(label) and sample.labels[label] not in values:
                values.append(sample.labels[label])
    rows = sorted(
        groups.values(), key=lambda row: (-row["bytes"], -row["objects"], row["call_site"])
    )
    made = datetime.datetime.fromtimestamp(profile.time_nanos / 1e9, datetime.UTC)
    return {
        "file": path,
        "time": made.isoformat(timespec="seconds"),
        "objects": sum(row["objects"] for row in rows),
        "bytes": sum(row["bytes"] for row in rows),
        "call_sites": rows,
    }


def _call_site(sample: Sample) -> tuple[str, str]:
    """Return file and line, and the function, of the program's innermost call."""
    named = sample.labels.get("call_site", "")
    for function, file, line in sample.stack:
        if f"{file}:{line}" == named or not named:
            return (f"{file}:{line}" if file else ""), function
    return named, ""


def show(report: dict[str, Any], top: int) -> None:
    """Print the first ``top`` call sites as a table, and the sum of all."""
    rows = []
    for row in report["call_sites"][:top]:
        more = f" and {len(row['arrays']) - 1} more" if len(row["arrays"]) > 1 else ""
        rows.append(
            (
                human_bytes(row["bytes"]),
                str(row["objects"]),
                row["call_site"] or "-",
                row["function"],
                "".join(row["arrays"][:1]) + more,
                ", ".join(row["devices"] + row["memory_kinds"]),
            )
        )
    out = Output()
    out.table(("bytes", "objects", "call site", "function", "array", "where"), rows)
    left = len(report["call_sites"]) - top
    if left > 0:
        out.line(f"{left} more call sites; --top shows them")
    out.line(f"{human_bytes(report['bytes'])} in {report['objects']} buffers at {report['time']}")


def save(path: str, output: str) -> None:
    """Write a profile to another file, compressed as pprof expects it."""
    data = Path(path).read_bytes()
    is_compressed = data.startswith(b"\x1f\x8b")
    Path(output).write_bytes(data if is_compressed else gzip.compress(data, mtime=0))
