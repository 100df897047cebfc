"""What the variables that hide GPUs do, for the doctor: which acts first, and how each counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from devrt.records import DoctorFinding

__all__ = ["findings"]

_DRIVERS = "CUDA_VISIBLE_DEVICES"
_OURS = "JAX_CUDA_VISIBLE_DEVICES"


def findings(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Yield what the variables that are set do to the devices and their numbers."""
    shown = environ.get(_DRIVERS)
    if shown is not None:
        yield DoctorFinding(
            code="devices-hidden",
            message=f"{_DRIVERS}={shown!r}: {_effect(shown)}",
            remedy=f"Unset {_DRIVERS} to see all of them.",
            severity="warning" if not _listed(shown) else "info",
        )
    chosen = environ.get(_OURS)
    if chosen and chosen != "all":
        numbers = "as the first variable renumbered them" if shown is not None else "as it does"
        yield DoctorFinding(
            code="devices-chosen",
            message=f"{_OURS}={chosen!r}: devrt uses these of the devices that the driver shows, "
            f"counted {numbers}. Numbers only: a UUID stands in {_DRIVERS}.",
            remedy=f"Unset {_OURS} to use all that the driver shows.",
            severity="info",
        )


def _listed(shown: str) -> list[str]:
    """Return the entries that the driver heeds: it stops at the first number below zero."""
    entries = [entry.strip() for entry in shown.split(",")]
    stop = next((i for i, e in enumerate(entries) if not e or e.startswith("-")), len(entries))
    return entries[:stop]


def _effect(shown: str) -> str:
    listed = _listed(shown)
    if not listed:
        return "the driver shows no device."
    effect = (
        f"the driver shows at most {len(listed)}, in this order, and counts them from 0. It stops "
        "at the first entry that names no device."
    )
    if any(entry.startswith("MIG-") for entry in listed):
        effect += " A MIG instance is named by its UUID alone, and a process gets one of them."
    if all(entry.isdecimal() for entry in listed):
        effect += (
            " The numbers are those of CUDA_DEVICE_ORDER: without PCI_BUS_ID there, the fastest "
            "device comes first, and nvidia-smi counts in another order."
        )
    return effect
