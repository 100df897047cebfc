"""What the doctor finds: a code that stays, whom it is about, what it is, and what to do."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

__all__ = ["CODES", "Finding"]

CODES: Mapping[str, str] = {
    "plugin-import-failed": "error",
    "plugin-missing-dependency": "error",
    "plugin-contract": "error",
    "plugin-manifest-invalid": "error",
    "plugin-probe-failed": "error",
    "plugin-client-failed": "error",
    "plugin-failed-here": "error",
    "plugin-crashed": "error",
    "plugin-exited": "error",
    "plugin-hung": "error",
    "plugin-garbled": "error",
    "plugin-findings-failed": "warning",
    "version-mismatch": "error",
    "env-malformed": "error",
    "config-malformed": "error",
    "no-backend": "error",
    "default-failed": "error",
    "discovery-failed": "error",
    "probe-not-started": "error",
    "plugin-conflict": "warning",
    "platform-duplicate": "warning",
    "plugin-not-recorded": "warning",
    "plugin-options-lost": "warning",
    "libraries-share-symbols": "warning",
    "hardware-without-backend": "warning",
    "env-unknown": "warning",
    "cluster-malformed": "warning",
    "cluster-incomplete": "info",
    "platform-unavailable": "info",
    "platform-excluded": "info",
    "library-opened-globally": "info",
}
"""Every code and its severity. Codes are part of the interface: they are added, never renamed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the doctor noticed.

    Attributes
    ----------
    code : str
        One of `CODES`, or a plugin's own, ``distribution/code``; stays the same from version to
        version.
    subject : str
        Whom it is about: ``platform@distribution``, a variable, a library, a piece of hardware.
    message : str
        What was found, as a sentence.
    remedy : str
        What to do about it; may be empty where nothing is wrong.
    command : str
        A command to type, where there is one.
    severity : str
        ``"error"``, ``"warning"`` or ``"info"``; that of the code when omitted.
    """

    code: str
    subject: str
    message: str
    remedy: str = ""
    command: str = ""
    severity: str = ""

    def __post_init__(self) -> None:
        if not self.severity:
            object.__setattr__(self, "severity", CODES[self.code])

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON takes it."""
        return {"severity": self.severity, **dataclasses.asdict(self)}
