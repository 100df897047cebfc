"""The plugin that devrt loads for platform ``tpu``, and for every library with the PJRT C API.

Importing it loads no native library: that happens when a client or a topology is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt.hookspecs import hookimpl
from devrt.records import (
    CACHE_OPTIONS,
    ClientContext,
    ClientFactory,
    DoctorFinding,
    PluginTraits,
    ProbeResult,
    TopologyFactory,
    Unavailable,
)

if TYPE_CHECKING:
    from devrt.contract import Client, PjrtLoader, Topology

__all__ = [
    "devrt_client_factories",
    "devrt_doctor_findings",
    "devrt_pjrt_loader",
    "devrt_plugin_traits",
    "devrt_topology_factories",
    "make_tpu_client",
    "make_tpu_topology",
    "probe",
]

_TPU = "tpu"
_CACHE_NAMES = tuple(spec.name for spec in CACHE_OPTIONS)


@hookimpl
def devrt_client_factories() -> list[ClientFactory]:
    """Return the one platform that this distribution is for."""
    return [
        ClientFactory(
            factory=make_tpu_client,
            probe=probe,
            options=CACHE_OPTIONS,
        )
    ]


@hookimpl
def devrt_topology_factories() -> list[TopologyFactory]:
    """Return the platform whose devices can be described without them."""
    return [TopologyFactory(factory=make_tpu_topology)]


@hookimpl
def devrt_pjrt_loader() -> PjrtLoader:
    """Return the loader of any library with the PJRT C API."""
    from devrt_pjrt.loader import Loader

    return Loader()


@hookimpl
def devrt_plugin_traits() -> list[PluginTraits]:
    """Return what the loader must know of the library for TPUs."""
    from devrt_tpu.traits import TPU

    return [TPU]


@hookimpl
def devrt_doctor_findings() -> list[DoctorFinding]:
    """Return what the library for TPUs changes in a process, where it is installed."""
    from devrt_tpu import _machine

    found = _machine.find_library()
    if isinstance(found, Unavailable):
        return []
    handlers = ", ".join(_machine.LIBRARY_HANDLERS)
    return [
        DoctorFinding(
            code="library-changes-process",
            severity="info",
            message=(
                f"Once {found} is initialised, by a client or a topology, it has threads of its "
                f"own, and handlers of its own for {handlers}, for as long as the process lives."
            ),
            remedy=(
                "Use TPUs and topologies in a process that needs none of these handlers; "
                "devrt_pjrt.loaded_library('tpu').changes tells what was changed."
            ),
        )
    ]


def probe() -> ProbeResult:
    """Say whether TPUs can be used on this machine, from its files; nothing is opened."""
    from devrt_tpu import _machine

    return _machine.probe()


def make_tpu_client(context: ClientContext) -> Client:
    """Make a client for this machine's TPUs."""
    own = {name: v for name, v in context.options.items() if name not in _CACHE_NAMES}
    return _loader().make_client(_tpu_library(), _TPU, own, context)


def make_tpu_topology(topology_name: str = "", **options: Any) -> Topology:
    """Describe TPUs that need not be there, by a name such as ``v5e:4x4``."""
    return _loader().make_topology(_tpu_library(), _TPU, topology_name, options)


def _loader() -> PjrtLoader:
    loader = devrt_pjrt_loader()
    loader.use_traits(devrt_plugin_traits)
    return loader


def _tpu_library() -> str:
    from devrt.errors import BackendUnavailableError
    from devrt_tpu import _machine

    found = _machine.find_library()
    if isinstance(found, Unavailable):
        msg = f"no TPU can be used or described: {found.reason}. {found.remedy}"
        raise BackendUnavailableError(msg, platform=_TPU, plugin="devrt-tpu")
    return found
