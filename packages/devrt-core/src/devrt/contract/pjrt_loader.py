"""What makes clients from libraries with the PJRT C API, of any vendor."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from devrt.contract.members import Contract

if TYPE_CHECKING:
    from devrt.contract.client import Client
    from devrt.contract.topology import Topology
    from devrt.records import ClientContext, PluginTraits, ProbeResult

__all__ = ["PjrtLoader"]


class PjrtLoader(metaclass=Contract):
    """Makes clients and topologies from any library with the PJRT C API.

    A plugin brings one through the hook ``devrt_pjrt_loader``. A library is given as the path of
    its file, or as a capsule named ``pjrt_c_api``. Libraries that are opened under a name stay
    open until the process ends.
    """

    @abc.abstractmethod
    def make_client(
        self, library: Any, platform: str, options: Mapping[str, Any], context: ClientContext
    ) -> Client:
        """Make a client with at least one device.

        Parameters
        ----------
        library
            The library.
        platform
            The platform that the client serves.
        options
            What the library's client is created with: strings, integers, lists of integers,
            numbers and booleans. ``distributed_client``, a
            `devrt.contract.DistributedRuntimeClient`, is the loader's own.
        context
            Its options are those of `devrt.records.CACHE_OPTIONS`, for the loader to honour.
        """

    def use_traits(self, find: Callable[[], Iterable[PluginTraits]]) -> None:
        """Take ``find``, which returns the `PluginTraits` records of all plugins.

        Called before any other member. Call ``find()`` late: it may load plugins. By default
        nothing is made of it.
        """

    def check(self, library: Any) -> ProbeResult:
        """Say within milliseconds whether a library can be used; opens no device."""
        from devrt.records import Available

        return Available()

    def make_topology(
        self, library: Any, platform: str, topology_name: str, options: Mapping[str, Any]
    ) -> Topology:
        """Describe devices that need not be there; ``platform`` may be empty.

        Raises
        ------
        UnimplementedError
            If the loader makes no topologies.
        """
        what = f"no topology of platform {platform!r} can be made"
        _unimplemented("make_topology", what, "makes none", platform)

    def load(self, name: str, library: Any) -> object:
        """Open a library under a name, once; return its function table as a capsule.

        Raises
        ------
        PluginError
            If another library has the name.
        UnimplementedError
            If the loader keeps no names.
        """
        _unimplemented("load", f"PJRT plugin {name!r} cannot be loaded", _KEEPS_NO_NAMES)

    def loaded(self, name: str) -> object | None:
        """Return the function table of the library that is open under a name; None if none is."""
        return None

    def initialize(self, name: str) -> None:
        """Initialise the library that is open under a name. Idempotent.

        Raises
        ------
        UnimplementedError
            If the loader keeps no names.
        """
        _unimplemented("initialize", f"PJRT plugin {name!r} cannot be initialised", _KEEPS_NO_NAMES)

    def is_initialized(self, name: str) -> bool:
        """Return whether a library is open under a name and initialised."""
        return False

    def conformance_cases(self) -> Sequence[Any]:
        """Return what `devrt conform` asks of a PJRT library itself: cases of level ``c_api``.

        Each is a `devrt.testing.conformance.Case`; what it checks takes the library's path from its
        subject. By default there are none.
        """
        return ()

    def open_global(self, platform: str, library: Any) -> None:
        """Open a library with its symbols visible to every other one, before any other use of it.

        Raises
        ------
        UnimplementedError
            If the loader opens none so.
        """
        what = f"the PJRT library of platform {platform!r} asks for global symbols"
        _unimplemented("open_global", what, "opens none so", platform)


_KEEPS_NO_NAMES = "opens no libraries by name"


def _unimplemented(operation: str, what: str, why: str, platform: str = "") -> NoReturn:
    from devrt.errors import UnimplementedError

    msg = (
        f"{what}: the installed PJRT loader {why}. Install one that does, such as a later version."
    )
    raise UnimplementedError(msg, operation=operation, platform=platform)
