"""Every hook that a devrt plugin may implement.

A plugin is a module named by an entry point in group ``devrt_plugins``. It marks functions with
`hookimpl` and returns records from `devrt.records`; importing it must load no native library.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from devrt.records import ClientFactory, DoctorFinding, MemoryKind, PluginTraits, TopologyFactory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.contract import PjrtLoader

__all__ = [
    "PROJECT_NAME",
    "devrt_client_factories",
    "devrt_doctor_findings",
    "devrt_memory_kinds",
    "devrt_pjrt_loader",
    "devrt_plugin_traits",
    "devrt_topology_factories",
    "hookimpl",
]

PROJECT_NAME = "devrt"

hookspec = pluggy.HookspecMarker(PROJECT_NAME)
hookimpl = pluggy.HookimplMarker(PROJECT_NAME)


@hookspec
def devrt_client_factories() -> Iterable[ClientFactory]:
    """Return the platforms that this plugin can make clients for."""
    raise NotImplementedError


@hookspec
def devrt_topology_factories() -> Iterable[TopologyFactory]:
    """Return the platforms that this plugin can describe without their devices."""
    raise NotImplementedError


@hookspec
def devrt_memory_kinds() -> Iterable[MemoryKind]:
    """Return memory kinds that this plugin adds, to its own platform or to another's."""
    raise NotImplementedError


@hookspec
def devrt_pjrt_loader() -> PjrtLoader:
    """Return the loader that makes a client from any PJRT library."""
    raise NotImplementedError


@hookspec
def devrt_doctor_findings() -> Iterable[DoctorFinding]:
    """Return what is worth knowing of this machine; only the doctor calls it, in a child."""
    raise NotImplementedError


@hookspec
def devrt_plugin_traits() -> Iterable[PluginTraits]:
    """Return what the loader must know of the platform's PJRT libraries, from any source."""
    raise NotImplementedError
