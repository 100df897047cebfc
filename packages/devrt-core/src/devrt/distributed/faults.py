"""The errors of a cluster: who is concerned, and what each did last; over the wire and back."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from devrt.errors import (
    DeadlineExceededError,
    DevrtError,
    DistributedError,
    InvalidArgumentError,
    PeerLostError,
    StatusCode,
)

__all__ = ["from_wire", "lost", "missing", "named", "refused", "to_wire"]

_SHOWN = 32
_KINDS: dict[str, type[DevrtError]] = {
    kind.__name__: kind
    for kind in (DeadlineExceededError, DistributedError, InvalidArgumentError, PeerLostError)
}
_BY_CODE: dict[StatusCode, type[DevrtError]] = {
    StatusCode.DEADLINE_EXCEEDED: DeadlineExceededError,
    StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
}


def named(processes: Collection[int]) -> str:
    """Return processes in words, ranges as such: ``processes 1, 4-7``."""
    runs: list[list[int]] = []
    for process in sorted(processes):
        if runs and process == runs[-1][-1] + 1:
            runs[-1][1:] = [process]
        else:
            runs.append([process])
    shown = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    rest = [f"and {len(shown) - _SHOWN} more groups"] if len(shown) > _SHOWN else []
    return f"process{'es' * (len(processes) > 1)} {', '.join(shown[:_SHOWN] + rest)}"


def missing(what: str, seconds: float, phases: Mapping[int, str], arrived: int) -> DevrtError:
    """Return the error for a wait whose time is over: these processes did not come."""
    msg = (
        f"DEADLINE_EXCEEDED: {what} was not complete after {seconds:g} s: {arrived} came, and "
        f"{named(phases)} did not ({_phases(phases)}). Look at the log of each that is missing, "
        "or allow more time."
    )
    return DeadlineExceededError(msg, missing=sorted(phases), phases=dict(phases))


def lost(what: str, phases: Mapping[int, str], why: str) -> DevrtError:
    """Return the error for a wait that processes which are lost cannot end."""
    msg = (
        f"UNAVAILABLE: {what} failed, as {named(phases)} {why} ({_phases(phases)}). "
        "Look at the log of each, and start the job again."
    )
    return PeerLostError(msg, processes=sorted(phases), phases=dict(phases))


def refused(code: StatusCode, words: str, **data: Any) -> DevrtError:
    """Return the error for a call that is refused."""
    kind = _BY_CODE.get(code, DistributedError)
    return kind(f"{code.name}: {words}", code=code, **data)


def to_wire(error: DevrtError) -> bytes:
    """Return what the status of a call has no field for."""
    data = {name: value for name, value in error.data.items() if name != "phases"}
    phases = error.data.get("phases", {})
    first = sorted(phases)[:_SHOWN]  # trailing metadata is limited to 8 KiB
    record = {"kind": type(error).__name__, "data": data, "phases": {n: phases[n] for n in first}}
    encoded = json.dumps(record).encode()
    return encoded if len(encoded) <= 6000 else b""


def from_wire(code: int, message: str, details: bytes | None) -> DevrtError:
    """Return the error of a call; of a service that is not devrt's by its code alone."""
    status = StatusCode(code) if code in StatusCode._value2member_map_ else StatusCode.UNKNOWN
    record = _read(details)
    kind = _KINDS.get(record.get("kind", ""), _BY_CODE.get(status, DistributedError))
    data = record.get("data", {})
    if phases := record.get("phases"):
        data["phases"] = {int(process): phase for process, phase in phases.items()}
    text = message if message.startswith(status.name) else f"{status.name}: {message}"
    return kind(text, code=status, **data)


def _read(details: bytes | None) -> dict[str, Any]:
    try:
        record = json.loads(details or b"{}")
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}


def _phases(phases: Mapping[int, str]) -> str:
    by_phase: dict[str, list[int]] = {}
    for process, phase in phases.items():
        by_phase.setdefault(phase, []).append(process)
    rows = [f"{named(processes)}: {phase}" for phase, processes in by_phase.items()]
    return "; ".join(rows[:8] + ["..."] * (len(rows) > 8))
