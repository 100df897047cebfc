"""What the commands show, as plain data: the JSON output, and the source of the tables."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple, ParamSpec, TypeVar

from devrt._support.words import words
from devrt.contract import Client, Device
from devrt.doctor import PluginEntry, entries, examine
from devrt.errors import BackendInitializationError, DevrtError, PluginError
from devrt.plugins import Broken, Decision, PluginRef
from devrt.probing.isolated import Level
from devrt.records import ClientFactory
from devrt.runtime import Runtime, default_runtime
from devrt.runtime.choice import requested_policy

__all__ = ["Found", "backends", "devices", "reported", "reporters", "usable"]

T = TypeVar("T")
P = ParamSpec("P")


def devices(platform: str | None = None) -> dict[str, Any]:
    """Return the devices of every usable backend, the default's first.

    Keys: ``default`` (platform or null), ``devices`` (list), ``failures`` (list of platform, type
    and message for backends that could not be initialised).
    """
    runtime = default_runtime()
    found = usable(platform)
    rows = [_device(device, client) for client in found.clients for device in client.devices()]
    default = rows[0]["platform"] if rows else None
    if platform is not None:
        with _probing_apart(runtime):
            chosen = runtime.decide().chosen
        default = None if chosen is None else chosen.ref.platform
    return {"default": default, "devices": rows, "failures": found.failures}


class Found(NamedTuple):
    """Every usable backend: its client, record and name; and those without a client."""

    clients: list[Client]
    factories: list[ClientFactory]
    failures: list[dict[str, str]]
    names: list[str]


def usable(platform: str | None = None, but: Collection[str] = ()) -> Found:
    """Return the client of every usable backend, the default's first; none of platforms ``but``.

    Raises
    ------
    SelectionError, BackendInitializationError
        If there is none, or ``platform`` is given and has none.
    """
    runtime = default_runtime()
    with _probing_apart(runtime):
        decision = runtime.decide(platform)
        if decision.chosen is None or platform is not None:
            runtime.get_backend(platform)  # raises with every cause
        failures = _failed_before(decision)
        made = _make_clients(runtime, platform, but, failures)
        factories = [runtime.plugins.resolve(ref).factory for ref, _ in made]
    names = [ref.name for ref, _ in made]
    return Found([client for _, client in made], factories, failures, names)


def reporters(platform: str | None = None) -> list[tuple[str, ClientFactory]]:
    """Return the platforms of this machine that a plugin reports without a client, and its record.

    Simulated devices are none of the machine's.
    """
    runtime = default_runtime()
    policy = runtime.policy() if platform is None else requested_policy(platform)
    found = []
    with _probing_apart(runtime):
        for ref in runtime.plugins.refs_for(policy.platforms):
            with contextlib.suppress(PluginError):
                if factory := _here(runtime, ref):
                    found.append((ref.platform, factory))
    return found


def _here(runtime: Runtime, ref: PluginRef) -> ClientFactory | None:
    """Return the record of a plugin for devices that the machine has."""
    plugins = runtime.plugins
    if plugins.is_forbidden(ref) or plugins.is_simulated(ref) or plugins.missing(ref) is not None:
        return None
    return plugins.load(ref).client_factory()


def reported(
    what: str, query: Callable[P, Iterable[T]], *args: P.args, **kwargs: P.kwargs
) -> tuple[list[T], str]:
    """Return what a plugin reports, or nothing and why that failed."""
    try:
        return list(query(*args, **kwargs)), ""
    except DevrtError as error:
        return [], error.message
    except Exception as error:  # noqa: BLE001  plugin code: the rest can be shown
        return [], f"its {what} raised {type(error).__name__}: {words(error)}"


def _make_clients(
    runtime: Runtime,
    platform: str | None,
    but: Collection[str],
    failures: list[dict[str, str]],
) -> list[tuple[PluginRef, Client]]:
    """Return a client of each usable backend, in order, and add to ``failures`` those without.

    A backend that fails no longer stands before another of the same platform, so it is queried
    again which can be used until nothing new is.
    """
    clients: dict[str, Client] = {}
    tried: set[str] = set()
    while fresh := [
        ref.name
        for ref in (candidate.ref for candidate in runtime.decide(platform).usable)
        if ref.name not in tried and ref.platform not in but
    ]:
        for name in fresh:
            tried.add(name)
            try:
                clients[name] = runtime.get_backend(name)
            except DevrtError as error:
                about = {"type": type(error).__name__, "message": error.message}
                failures.append({"platform": name.partition("@")[0]} | about)
    refs = (candidate.ref for candidate in runtime.decide(platform).usable)
    return [(ref, clients[ref.name]) for ref in refs if ref.name in clients]


@contextlib.contextmanager
def _probing_apart(runtime: Runtime) -> Iterator[None]:
    """Let plugins be probed in child processes first, unless the user chose otherwise."""
    config = runtime.config
    if "probe" in config.names() and config.setting("probe").origin == "default":
        with config.override(probe="isolated"):
            yield
    else:
        yield


def _failed_before(decision: Decision) -> list[dict[str, str]]:
    return [
        {
            "platform": verdict.candidate.ref.platform,
            "type": BackendInitializationError.__name__,
            "message": verdict.reason,
        }
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
    ``backends`` (list), ``problem`` and ``problem_type`` (the error that a first use raises, or
    null). Plugins are loaded in child processes, as by the doctor; one
    that the policy excludes is listed without being loaded.
    """
    runtime = default_runtime()
    for name in runtime.config.names():
        runtime.config.setting(name)  # raises where a first use would: nothing could be chosen
    found = examine(runtime, level=Level.LOAD)
    for error in found.trouble:
        raise error
    decision = found.decision
    chosen = found.chosen
    policy = decision.policy if decision is not None else found.policy
    return {
        "chosen": chosen.ref.name if chosen is not None else None,
        "policy": {"platforms": list(policy.platforms), "source": policy.source},
        "backends": [_backend(entry) for entry in entries(found)],
        "problem": found.problem or None,
        "problem_type": found.problem_type or None,
    }


def _backend(entry: PluginEntry) -> dict[str, Any]:
    return {
        "platform": entry.platform,
        "distribution": entry.distribution,
        "version": entry.version,
        "priority": entry.priority,
        "experimental": entry.experimental,
        "aliases": list(entry.aliases),
        "state": entry.state,
        "reason": entry.reason,
        "remedy": entry.remedy,
        "description": entry.facts.get("description", ""),
        "source": entry.source,
    }
