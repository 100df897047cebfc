"""What JAX's registry keeps in module variables, read from the default runtime."""

from __future__ import annotations

import functools

from devrt.contract import Client
from devrt.errors import DevrtError
from devrt.runtime import default_runtime, get_backend
from devrt.xla_bridge.registrations import BackendRegistration, TopologyFactory

__all__ = [
    "alias_to_platforms",
    "backend_errors",
    "backend_factories",
    "backends",
    "default_backend",
    "platform_aliases",
    "topology_factories",
]


def backends() -> dict[str, Client]:
    """Return the clients made so far, by platform."""
    return default_runtime().live_clients()


def default_backend() -> Client | None:
    """Return the default client; None before any client was made."""
    return get_backend() if backends() else None


def backend_errors() -> dict[str, str]:
    """Return why clients could not be made, by platform."""
    return {ref.platform: e.message for ref, e in default_runtime().failures().items()}


def backend_factories() -> dict[str, BackendRegistration]:
    """Return the backends that can be loaded, by platform; of several the first by name."""
    plugins = default_runtime().plugins
    found: dict[str, BackendRegistration] = {}
    for ref in plugins.refs():
        try:
            record = plugins.resolve(ref).factory
        except DevrtError:
            continue
        client = functools.partial(get_backend, ref.name)
        made = BackendRegistration(
            client, record.priority, record.fail_quietly, record.experimental
        )
        found.setdefault(ref.platform, made)
    return found


def topology_factories() -> dict[str, TopologyFactory]:
    """Return what describes devices that need not be there, by platform."""
    plugins = default_runtime().plugins
    platforms = dict.fromkeys(ref.platform for ref in plugins.refs())
    found = {platform: plugins.topologies(platform) for platform in platforms}
    return {platform: pairs[0][1].factory for platform, pairs in found.items() if pairs}


def alias_to_platforms() -> dict[str, list[str]]:
    """Return the installed platforms by the names that stand for them."""
    plugins = default_runtime().plugins
    found: dict[str, list[str]] = {}
    for ref in plugins.refs():
        for alias in plugins.aliases(ref):
            found.setdefault(alias, []).append(ref.platform)
    return {alias: list(dict.fromkeys(platforms)) for alias, platforms in found.items()}


def platform_aliases() -> dict[str, str]:
    """Return the other name of each installed platform that has one."""
    return {p: alias for alias, platforms in alias_to_platforms().items() for p in platforms}
