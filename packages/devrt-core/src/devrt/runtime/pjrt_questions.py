"""Questions about the PJRT C API behind a backend, and topologies without their devices."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from devrt.contract import Client
from devrt.errors import DevrtError, PluginError, UnimplementedError
from devrt.plugins import LibraryBackend, PluginRef, PluginRegistry
from devrt.plugins.discovery.known import (
    advice_for_topologies,
    has_topology_extra,
    wheels_for,
)
from devrt.plugins.discovery.refs import normalized
from devrt.records import TopologyFactory
from devrt.runtime.choice import requested_policy
from devrt.runtime.current import default_runtime

__all__ = [
    "backend_pjrt_c_api_version",
    "make_pjrt_topology",
    "make_pjrt_tpu_topology",
    "using_pjrt_c_api",
]


def using_pjrt_c_api(backend: str | Client | None = None) -> bool:
    """Return whether a backend works through the PJRT C API."""
    return backend_pjrt_c_api_version(backend) is not None


def backend_pjrt_c_api_version(platform: str | Client | None = None) -> tuple[int, int] | None:
    """Return the version of the PJRT C API of a backend; None if it does not use that."""
    client = default_runtime().get_backend(platform)
    major = getattr(client, "pjrt_c_api_major_version", None)
    minor = getattr(client, "pjrt_c_api_minor_version", None)
    return None if major is None or minor is None else (major, minor)


def make_pjrt_topology(platform: str, topology_name: str = "", **kwargs: Any) -> Any:
    """Return a description of devices that need not be present.

    No client is made.

    Parameters
    ----------
    platform
        A platform, an alias or ``platform@distribution``; of several plugins that can describe
        it, the first by the order of their sources and names does.
    topology_name
        What the platform calls it (``"v5e:2x2"``); empty for its default.
    **kwargs
        Options of the platform.

    Returns
    -------
    devrt.contract.Topology
        What the platform's topology factory made.

    Raises
    ------
    UnimplementedError
        If no installed plugin describes the platform; the message names those that describe one.
    PluginError
        If the plugin's factory failed.
    """
    plugins = default_runtime().plugins
    (name, *_) = requested_policy(platform).platforms
    found = _describing(plugins, name)
    if not found:
        raise _undescribed(plugins, name)
    ref, record = found[0]
    return _described(ref, record, topology_name, kwargs)


def _described(
    ref: PluginRef, record: TopologyFactory, topology_name: str, options: Mapping[str, Any]
) -> Any:
    try:
        return record.factory(topology_name, **options)
    except DevrtError as error:
        wheels = _missing_wheels(ref.platform) if ref.library else ()
        if not wheels or "remedy" in error.data:  # which is what to install first
            raise
        msg = (
            f"{error.message.rstrip('.')}. Topologies by name need the platform's own plugin: "
            f"{_advice(wheels)}"
        )
        raise type(error)(msg, code=error.code, **error.data) from error
    except (Exception, SystemExit) as error:  # plugin code: a description may fail in any way
        msg = (
            f"plugin {ref} could not describe topology {topology_name!r} of platform "
            f"{ref.platform!r}: {type(error).__name__}: {error}. Check its name and options."
        )
        raise PluginError(msg, phase="topology", **ref.facts()) from error


def _missing_wheels(platform: str) -> tuple[str, ...]:
    """Return the wheels that are known to serve a platform and are not installed."""
    installed = {normalized(ref.distribution) for ref in default_runtime().plugins.refs()}
    return tuple(wheel for wheel in wheels_for(platform) if normalized(wheel) not in installed)


def _advice(wheels: Sequence[str]) -> str:
    return " or ".join(map(advice_for_topologies, wheels))


def make_pjrt_tpu_topology(topology_name: str = "", **kwargs: Any) -> Any:
    """Return a description of the devices of the platform in the function's name.

    As `make_pjrt_topology` for that platform, under the name that the registry of JAX has for it.
    The library is the one that ``TPU_LIBRARY_PATH`` names, else what an installed plugin has.

    Parameters
    ----------
    topology_name
        What the platform calls it (``"v5e:2x2"``); empty for its default.
    **kwargs
        Options of the platform.

    Raises
    ------
    UnimplementedError
        If nothing that is installed can describe it; the message names what to install.
    """
    operation, platform = "make_pjrt_tpu_topology", "tpu"
    library = os.environ.get("TPU_LIBRARY_PATH")
    try:
        if not library:
            return make_pjrt_topology(platform, topology_name, **kwargs)
        backend = LibraryBackend(platform=platform, library=library)
        record = backend.topology_factory(default_runtime().plugins.pjrt_loader)
        return _described(PluginRef(platform, "(environment)"), record, topology_name, kwargs)
    except UnimplementedError as error:
        advice = _advice(wheels_for(platform))
        more = "" if advice in error.message else f" Install what can: {advice}"
        msg = (
            f"topology {topology_name!r} of platform {platform!r} cannot be made: "
            f"{error.message.rstrip('.')}.{more}"
        )
        raise UnimplementedError(msg, operation=operation, platform=platform) from error


def _describing(plugins: PluginRegistry, name: str) -> list[tuple[PluginRef, TopologyFactory]]:
    refs = plugins.refs_for((name,))
    found = [
        pair
        for platform in dict.fromkeys(ref.platform for ref in refs)
        for pair in plugins.topologies(platform)
    ]
    return [pair for pair in found if "@" not in name or pair[0].is_called(name)]


def _undescribed(plugins: PluginRegistry, name: str) -> UnimplementedError:
    platforms = sorted({ref.platform for ref in plugins.refs()})
    able = [
        f"{platform} ({ref})"
        for platform in platforms
        for ref, _ in plugins.topologies(platform)[:1]
    ]
    others = ", ".join(able) or "none"
    missing = _missing_wheels(name)
    # What is installed of them is not enough, but may have an extra that describes topologies.
    wheels = _advice([w for w in wheels_for(name) if w in missing or has_topology_extra(w)])
    msg = (
        f"no installed plugin describes topologies of platform {name!r}. Install one that does"
        f"{wheels and ': '}{wheels}, or name another platform. Platforms with topologies: {others}."
    )
    return UnimplementedError(msg, operation="make_pjrt_topology", platform=name)
