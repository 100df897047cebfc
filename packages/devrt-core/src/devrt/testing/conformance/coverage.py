"""What of the C API the cases of a PJRT library have exercised."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devrt.testing.conformance.report import Report

__all__ = ["TITLES", "coverage"]

TITLES = {
    "called": "called",
    "unimplemented": "called, and unimplemented",
    "only_probed": "called with a wrong struct_size only",
    "never_called": "there, and never called",
    "absent": "not in the table",
    "extensions": "extensions",
}
"""The parts of the coverage, and what each is called."""


def coverage(report: Report) -> dict[str, list[str]]:
    """Return the functions of the C API by what became of them, from what the cases noted.

    Empty for a plugin that is no PJRT library.
    """
    noted: dict[str, dict[str, None]] = {}
    for result in report.results:
        for kind, names in result.notes.items():
            noted.setdefault(kind, {}).update(dict.fromkeys(names))
    if not noted:
        return {}
    called, there = noted.get("called", {}), noted.get("there", {})
    not_made, probed = noted.get("unimplemented", {}), noted.get("probed", {})
    tried = {**called, **probed}
    return {
        "called": [name for name in called if name not in not_made],
        "unimplemented": list(not_made),
        "only_probed": [name for name in probed if name not in called],
        "never_called": [name for name in there if name not in tried],
        "absent": [name for name in noted.get("absent", {}) if name not in called],
        "extensions": list(noted.get("extension", {})),
    }
