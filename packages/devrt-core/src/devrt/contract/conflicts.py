"""Versions that are known not to work together, and how users pass over one of them.

A manifest lists distributions (``[[backend.conflicts]]``); what is no distribution, such as a
library of the system, a plugin finds itself and describes by a `KnownConflict`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from devrt._support.record import record

__all__ = ["IGNORED_CONFLICTS", "KnownConflict", "is_passed_over", "with_override"]

IGNORED_CONFLICTS = "DEVRT_IGNORE_CONFLICTS"
"""The environment variable that lists ids of conflicts that are passed over."""


@record(frozen=True, slots=True, kw_only=True)
class KnownConflict:
    """A defect of certain versions that somebody has reported where all can read it.

    Attributes
    ----------
    id : str
        Its name, by which users pass it over.
    reason : str
        What goes wrong, as a clause.
    remedy : str
        What to do, as a sentence.
    source : str
        The address of the report.
    severity : str
        ``"error"`` or ``"warning"``.
    """

    id: str
    reason: str
    remedy: str
    source: str
    severity: str = "warning"

    def message(self, found: str) -> str:
        """Return what is wrong, as a sentence; ``found`` says of which version."""
        return f"{found}: {self.reason} ({self.source})."

    def finding(self, found: str) -> dict[str, str]:
        """Return the fields of a `devrt.records.DoctorFinding` about it."""
        return {
            "code": self.id,
            "message": self.message(found),
            "remedy": with_override(self.remedy, self.id),
            "severity": self.severity,
        }


def is_passed_over(id: str, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether the user lists a conflict among those that are passed over."""
    listed = (os.environ if environ is None else environ).get(IGNORED_CONFLICTS, "")
    return bool(id) and id in map(str.strip, listed.split(","))


def with_override(remedy: str, id: str) -> str:
    """Return a remedy with how to go on all the same, for a conflict that has an id."""
    return f"{remedy} {IGNORED_CONFLICTS}={id} goes on all the same." if id else remedy
