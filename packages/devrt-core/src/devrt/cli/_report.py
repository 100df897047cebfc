"""What the commands show, as plain data: the JSON output, and the source of the tables."""

from __future__ import annotations

from typing import Any

from devrt.contract import Client, Device
from devrt.errors import DevrtError, SelectionError
from devrt.plugins import Broken, Decision, Outcome, PluginRef, Verdict
from devrt.records import Unavailable
from devrt.runtime import default_runtime

__all__ = ["backends", "devices"]


def devices(platform: str | None = None) -> dict[str, Any]:
    """Return the devices of every usable backend, the default's first.

    Keys: ``default`` (platform or null), ``devices`` (list), ``failures`` (list of platform and
    message for backends that could not be initialised).
    """
    runtime = default_runtime()
    decision = runtime.decide(platform)
    if decision.chosen is None or platform is not None:
        runtime.get_backend(platform)  # raises with every cause
    rows: list[dict[str, Any]] = []
    failures = _failed_before(decision)
    for candidate in decision.usable:
        try:
            client = runtime.get_backend(candidate.ref.name)
        except DevrtError as error:
            failures.append({"platform": candidate.ref.platform, "message": error.message})
            continue
        rows.extend(_device(device, client) for device in client.devices())
    default = rows[0]["platform"] if rows else None
    return {"default": default, "devices": rows, "failures": failures}


def _failed_before(decision: Decision) -> list[dict[str, str]]:
    return [
        {"platform": verdict.candidate.ref.platform, "message": verdict.reason}
        for verdict in decision.verdicts
        if isinstance(verdict.candidate.state, Broken) and verdict.candidate.state.phase == "client"
    ]


def _device(device: Device, client: Client) -> dict[str, Any]:
    local = device.process_index == client.process_index()
    stats = device.memory_stats() if local else None
    return {
        "platform": device.platform,
        "id": device.id,
        "kind": device.device_kind,
        "process_index": device.process_index,
        "local_hardware_id": device.local_hardware_id,
        "memories": [memory.kind for memory in device.addressable_memories()] if local else [],
        "bytes_in_use": (stats or {}).get("bytes_in_use"),
        "bytes_limit": (stats or {}).get("bytes_limit"),
        "platform_version": client.platform_version,
    }


def backends() -> dict[str, Any]:
    """Return every installed backend with its state and the reason for it.

    Keys: ``chosen`` (``platform@distribution`` or null), ``policy`` (platforms and source),
    ``backends`` (list). A backend that the policy excludes is listed without being imported.
    """
    runtime = default_runtime()
    decision = runtime.decide()
    rows = [_backend(verdict) for verdict in decision.verdicts]
    listed = {verdict.candidate.ref for verdict in decision.verdicts}
    for ref in runtime.plugins.refs():
        if ref not in listed and decision.policy.platforms:
            rows.append(_not_loaded(ref, decision))
    return {
        "chosen": decision.chosen.ref.name if decision.chosen else None,
        "policy": {
            "platforms": list(decision.policy.platforms),
            "source": decision.policy.source,
        },
        "backends": rows,
        "problem": _problem(decision),
    }


def _problem(decision: Decision) -> str | None:
    if decision.chosen is not None:
        return None
    try:
        default_runtime().get_backend()
    except SelectionError as error:
        return error.message
    return None


def _backend(verdict: Verdict) -> dict[str, Any]:
    candidate = verdict.candidate
    state = candidate.state
    remedy = state.remedy if isinstance(state, Unavailable | Broken) else ""
    return {
        "platform": candidate.ref.platform,
        "distribution": candidate.ref.distribution,
        "version": candidate.ref.version,
        "priority": candidate.priority,
        "experimental": candidate.experimental,
        "aliases": list(candidate.aliases),
        "state": verdict.outcome.value,
        "reason": verdict.reason,
        "remedy": remedy,
        "source": candidate.ref.source,
    }


def _not_loaded(ref: PluginRef, decision: Decision) -> dict[str, Any]:
    allowed = ", ".join(decision.policy.platforms)
    return {
        "platform": ref.platform,
        "distribution": ref.distribution,
        "version": ref.version,
        "priority": None,
        "experimental": None,
        "aliases": [],
        "state": Outcome.EXCLUDED.value,
        "reason": f"{decision.policy.source} allows only {allowed}; not imported",
        "remedy": "",
        "source": ref.source,
    }
