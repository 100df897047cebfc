"""The plugin that devrt loads for platform ``tpu``, and for every library with the PJRT C API.

Importing it loads no native library: that happens when a client or a topology is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.hookspecs import hookimpl
from devrt.records import (
    CACHE_OPTIONS,
    Available,
    ClientContext,
    ClientFactory,
    DoctorFinding,
    PjrtLoader,
    ProbeResult,
    TopologyFactory,
    Unavailable,
)

if TYPE_CHECKING:
    from devrt.compiling.cache import ExecutableCache
    from devrt.contract import Client, Topology

__all__ = [
    "check",
    "devrt_client_factories",
    "devrt_doctor_findings",
    "devrt_pjrt_loader",
    "devrt_topology_factories",
    "initialize",
    "is_initialized",
    "load",
    "loaded",
    "make_client",
    "make_topology",
    "make_tpu_client",
    "make_tpu_topology",
    "open_global",
    "probe",
]

_TPU = "tpu"
_CACHE_NAMES = tuple(spec.name for spec in CACHE_OPTIONS)


@hookimpl
def devrt_client_factories() -> list[ClientFactory]:
    """Return the one platform that this distribution is for."""
    return [
        ClientFactory(
            platform=_TPU,
            priority=300,
            fail_quietly=True,
            factory=make_tpu_client,
            probe=probe,
            options=CACHE_OPTIONS,
        )
    ]


@hookimpl
def devrt_topology_factories() -> list[TopologyFactory]:
    """Return the platform whose devices can be described without them."""
    return [TopologyFactory(platform=_TPU, factory=make_tpu_topology)]


@hookimpl
def devrt_pjrt_loader() -> PjrtLoader:
    """Return the loader of any library with the PJRT C API."""
    return PjrtLoader(
        make_client=make_client,
        check=check,
        make_topology=make_topology,
        load=load,
        loaded=loaded,
        initialize=initialize,
        is_initialized=is_initialized,
        open_global=open_global,
    )


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
    """Say whether TPUs can be used on this machine, or what it lacks.

    Returns
    -------
    Available or Unavailable
        From the machine's files; nothing is opened.
    """
    from devrt_tpu import _machine

    return _machine.probe()


def check(library: Any) -> ProbeResult:
    """Say whether a library can be one of this machine, from its first bytes.

    Parameters
    ----------
    library
        The path of a library, or a ``pjrt_c_api`` capsule.
    """
    from devrt_pjrt.library.elf import problem_with

    problem = problem_with(library) if isinstance(library, str) else ""
    if not problem:
        return Available()
    remedy = "Give the full path of a library for this machine, or install its package again."
    return Unavailable(f"its PJRT library {library!r} cannot be opened: {problem}", remedy)


def make_client(
    library: Any, platform: str, options: Mapping[str, Any], context: ClientContext
) -> Client:
    """Make a client of any PJRT library; see `devrt.records.PjrtLoader`."""
    import devrt_pjrt

    cache = {name: context.options[name] for name in _CACHE_NAMES if name in context.options}
    return devrt_pjrt.make_client(
        devrt_pjrt.library_for(platform, library),
        platform,
        options,
        (lambda: _open_cache(cache)) if cache else None,
    )


def _open_cache(options: Mapping[str, Any]) -> ExecutableCache | None:
    from devrt.compiling.cache import from_options  # a start without compiling has no use for it

    return from_options(options)


def make_topology(
    library: Any, platform: str, topology_name: str, options: Mapping[str, Any]
) -> Topology:
    """Describe devices of any PJRT library; see `devrt.records.PjrtLoader`."""
    import devrt_pjrt

    return devrt_pjrt.make_topology(
        devrt_pjrt.library_for(platform, library), platform, topology_name, options
    )


def load(name: str, library: Any) -> object:
    """Open a library under a name; see `devrt.records.PjrtLoader`."""
    import devrt_pjrt

    return devrt_pjrt.add_library(name, library).capsule()


def loaded(name: str) -> object | None:
    """Return the function table of a library that is open; see `devrt.records.PjrtLoader`."""
    import devrt_pjrt

    return (
        devrt_pjrt.loaded_library(name).capsule() if devrt_pjrt.pjrt_plugin_loaded(name) else None
    )


def initialize(name: str) -> None:
    """Initialise a library that is open; see `devrt.records.PjrtLoader`."""
    import devrt_pjrt

    devrt_pjrt.initialize_pjrt_plugin(name)


def is_initialized(name: str) -> bool:
    """Return whether a library is open and initialised; see `devrt.records.PjrtLoader`."""
    import devrt_pjrt

    return devrt_pjrt.pjrt_plugin_initialized(name)


def open_global(platform: str, library: Any) -> None:
    """Open a library with global symbols; see `devrt.records.PjrtLoader`."""
    import devrt_pjrt

    devrt_pjrt.library_for(platform, library, global_symbols=True)


def make_tpu_client(context: ClientContext) -> Client:
    """Make a client for this machine's TPUs.

    Raises
    ------
    BackendUnavailableError
        If there is no library for TPUs.
    """
    own = {name: v for name, v in context.options.items() if name not in _CACHE_NAMES}
    return make_client(_tpu_library(), _TPU, own, context)


def make_tpu_topology(topology_name: str = "", **options: Any) -> Topology:
    """Describe TPUs that need not be there, by a name such as ``v5e:4x4``.

    Raises
    ------
    BackendUnavailableError
        If there is no library for TPUs.
    """
    return make_topology(_tpu_library(), _TPU, topology_name, options)


def _tpu_library() -> str:
    from devrt.errors import BackendUnavailableError
    from devrt_tpu import _machine

    found = _machine.find_library()
    if isinstance(found, Unavailable):
        msg = f"no TPU can be used or described: {found.reason}. {found.remedy}"
        raise BackendUnavailableError(msg, platform=_TPU, plugin="devrt-tpu")
    return found
