"""The result file of a machine: one section a subject, each with its own date and versions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.rows import Row

__all__ = ["merge", "section", "write"]


def section(
    rows: Sequence[Row], date: str, load: tuple[float, float, float], versions: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the section of one subject, as plain data.

    `load` is the machine's load average when the subject ended: a figure taken beside other work
    says so.
    """
    return {
        "date": date,
        "load_average": [round(value, 2) for value in load],
        "versions": dict(versions),
        "rows": [row.to_json() for row in rows],
    }


def merge(
    old: Mapping[str, Any], facts: Mapping[str, Any], sections: Mapping[str, Any]
) -> dict[str, Any]:
    """Replace the sections that were measured anew and keep the others with their dates."""
    subjects = {**old.get("subjects", {}), **sections}
    return {"machine": dict(facts), "subjects": dict(sorted(subjects.items()))}


def write(path: Path, facts: Mapping[str, Any], sections: Mapping[str, Any]) -> None:
    """Merge the sections into the file at `path`."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(merge(old, facts, sections), indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
