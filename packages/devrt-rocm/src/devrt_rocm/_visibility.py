"""What the variables that hide GPUs do, for the doctor: which acts first, and how each counts.

As the sources have it: of ROCR-Runtime ``amd_filter_device.cpp``, of clr ``rocdevice.cpp``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile

from devrt.records import DoctorFinding

__all__ = ["findings"]

_ROCR = "ROCR_VISIBLE_DEVICES"
_HIP = "HIP_VISIBLE_DEVICES"
_CUDA = "CUDA_VISIBLE_DEVICES"
_ORDINAL = "GPU_DEVICE_ORDINAL"
_OURS = "JAX_ROCM_VISIBLE_DEVICES"

_STOPS = "It stops at the first entry that names no device"


def findings(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Yield what the variables that are set do to the devices and their numbers."""
    before = ""
    if (shown := environ.get(_ROCR)) is not None:
        listed = _listed([entry.strip() for entry in shown.split(",")])
        yield _hidden(_ROCR, shown, "ROCm's runtime below HIP", listed, ", or one again")
        before = _ROCR
    # HIP takes its own variable unless that is empty.
    chosen = next((name for name in (_HIP, _CUDA) if environ.get(name)), "")
    if chosen:
        listed = _listed(environ[chosen].split(","))
        counts = f", counted as {before} renumbered them" if before else ""
        rest = f"{counts}. A blank in it belongs to the entry"
        yield _hidden(chosen, environ[chosen], "HIP", listed, rest)
        before = chosen
    yield from _unread(environ, chosen)
    ours = environ.get(_OURS)
    if ours and ours != "all":
        numbers = f"as {before} renumbered them" if before else "as it does"
        yield DoctorFinding(
            code="devices-chosen",
            message=f"{_OURS}={ours!r}: devrt uses these of the devices that HIP shows, counted "
            f"{numbers}. Numbers only: a UUID stands in {_ROCR}.",
            remedy=f"Unset {_OURS} to use all that HIP shows.",
            severity="info",
        )


def _hidden(name: str, value: str, who: str, listed: list[str], rest: str) -> DoctorFinding:
    effect = f"at most {len(listed)}, in this order, and counts them from 0" if listed else "none"
    return DoctorFinding(
        code="devices-hidden",
        message=f"{name}={value!r}: of the devices {who} shows {effect}. {_STOPS}{rest}.",
        remedy=f"Unset {name} to see all of them.",
        severity="info" if listed else "warning",
    )


def _unread(environ: Mapping[str, str], chosen: str) -> Iterator[DoctorFinding]:
    """Yield variables that are set and hide nothing here."""
    reasons = {
        _CUDA: f"HIP does not read it where {_HIP} is set" if chosen == _HIP else "",
        _ORDINAL: "the runtime reads it for OpenCL only, though AMD's pages name HIP too",
    }
    for name, reason in reasons.items():
        if environ.get(name) and reason:
            yield DoctorFinding(
                code="devices-not-hidden",
                message=f"{name}={environ[name]!r} hides no device: {reason}.",
                remedy=f"Hide devices by {_ROCR}.",
                severity="info",
            )


def _listed(entries: list[str]) -> list[str]:
    """Return the first entries that may name a device, by a number or a UUID."""
    return list(takewhile(lambda e: e.isdecimal() or e.upper().startswith("GPU-"), entries))
