"""The plugin that devrt loads for platform ``tpu``, and for every library with the PJRT C API.

Importing it loads no native library: that happens when a client or a topology is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from devrt.hookspecs import hookimpl
from devrt.records import ClientFactory, DoctorFinding, PluginTraits, ProbeResult, Unavailable

if TYPE_CHECKING:
    from devrt.contract import PjrtLoader

__all__ = [
    "devrt_client_factories",
    "devrt_doctor_findings",
    "devrt_pjrt_loader",
    "devrt_plugin_traits",
    "library",
    "probe",
]


@hookimpl
def devrt_client_factories() -> list[ClientFactory]:
    """Return the one platform that this distribution is for."""
    return [ClientFactory(library=library, probe=probe)]


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

    found = library()
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


def library() -> str | Unavailable:
    """Return the path of the library for TPUs, or why there is none."""
    from devrt_tpu import _machine

    return _machine.find_library()
