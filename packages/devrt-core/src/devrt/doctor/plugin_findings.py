"""What plugins say to the doctor: by the hook ``devrt_doctor_findings``, and in their manifests."""

from __future__ import annotations

from collections.abc import Iterator

from devrt.doctor.examination import Examined
from devrt.doctor.findings import Finding
from devrt.plugins.discovery.refs import normalized
from devrt.plugins.loading.faults import usual_remedy

__all__ = ["plugin_findings"]


def plugin_findings(examined: Examined) -> Iterator[Finding]:
    """Yield a plugin's findings, their codes behind its name, or what kept it from having any."""
    yield from _conflicts(examined)
    reported = examined.report.findings if examined.report is not None else None
    ref = examined.ref
    if isinstance(reported, str):
        why = reported.rstrip(".")
        message = f"what plugin {ref} has to say cannot be had; devrt_doctor_findings: {why}."
        remedy = usual_remedy(ref)
        yield Finding("plugin-findings-failed", ref.name, message, remedy)
        return
    for item in reported or ():
        yield Finding(
            f"{normalized(ref.distribution)}/{item['code']}",
            ref.name,
            item["message"],
            item["remedy"],
            item["command"],
            item["severity"],
        )


def _conflicts(examined: Examined) -> Iterator[Finding]:
    """Yield the known conflicts that only warn; another makes the platform unavailable."""
    manifest = examined.manifest
    for conflict in manifest.conflicts if manifest is not None else ():
        if conflict.severity == "warning" and conflict.holds():
            message = f"{conflict.reason.rstrip('.')}."
            name = examined.ref.name
            yield Finding("plugin-conflict", name, message, conflict.what_to_do())
