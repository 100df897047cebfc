"""Releases of ROCm that are known to go wrong with XLA's plugin, each with its source."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Iterator

from devrt.contract.conflicts import KnownConflict, is_passed_over
from devrt.records import DoctorFinding
from devrt_rocm._platform import PLATFORM

__all__ = ["KNOWN", "findings"]

KNOWN = {
    "7.2.0": KnownConflict(
        id="rocm-7-2-0-xla",
        reason="programs of XLA end with errors or crashes now and then, which AMD has verified",
        remedy="Install another release of ROCm.",
        source="https://github.com/ROCm/TheRock/issues/7891",
    ),
}
"""By the release."""


def findings(release: str) -> Iterator[DoctorFinding]:
    """Yield what is known of a release (``"7.2.0-43"``) where XLA's plugin is installed."""
    conflict = KNOWN.get(release.partition("-")[0])
    if conflict is not None and not is_passed_over(conflict.id) and _has_plugin():
        yield DoctorFinding(**conflict.finding(f"ROCm {release}"))


def _has_plugin() -> bool:
    for wheel, _ in PLATFORM.wheels:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return bool(importlib.metadata.version(wheel))
    return False
