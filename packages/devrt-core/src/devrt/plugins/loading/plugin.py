"""A loaded plugin: the records that its hooks returned; and a backend that was chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devrt._support.record import record, replaced
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.faults import contract_error, disagreement
from devrt.plugins.loading.libraries import LibraryBackend
from devrt.records import (
    ClientContext,
    ClientFactory,
    DoctorFinding,
    MemoryKind,
    OptionSpec,
    PluginTraits,
    TopologyFactory,
    Unavailable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.contract import Client, PjrtLoader
    from devrt.plugins.loading.manifest import BackendManifest

__all__ = ["Backend", "Plugin", "made_by"]


@record(frozen=True, slots=True)
class Plugin:
    """A loaded plugin: the records that its hooks returned, in the order in which it gave them.

    Of ``clients`` there is at most one for each platform. ``libraries`` are PJRT libraries that it
    serves platforms with; ``loader`` is how it loads such libraries, its own and others', and
    ``traits`` what it says of kinds of them. ``findings`` asks it what it has to say to the doctor:
    plugin code runs in it.
    """

    ref: PluginRef
    clients: tuple[ClientFactory, ...] = ()
    topologies: tuple[TopologyFactory, ...] = ()
    memory_kinds: tuple[MemoryKind, ...] = ()
    libraries: tuple[LibraryBackend, ...] = ()
    loader: PjrtLoader | None = None
    traits: tuple[PluginTraits, ...] = ()
    manifest: BackendManifest | None = None
    findings: Callable[[], tuple[DoctorFinding, ...]] | None = None

    def client_factory(self) -> ClientFactory | None:
        """Return the record for the platform that the entry point names."""
        return next((c for c in self.clients if c.platform == self.ref.platform), None)

    def bound(
        self,
        find: Callable[[], PjrtLoader | Unavailable],
        manifest: BackendManifest | None = None,
    ) -> Plugin:
        """Return it with records for its libraries, through the loader that ``find`` returns.

        What a manifest says of the platform stands in its records from then on. A record that says
        something else of it is a `PluginContractError`.
        """

        def counting(made: Any) -> Any:
            if manifest is None or made.platform != self.ref.platform:
                return made
            for field in manifest.disagrees_in(made) if self.ref.module else ():
                values = getattr(manifest, field), getattr(made, field)
                raise contract_error(self.ref, disagreement(field, *values))
            return manifest.over(made)

        records = tuple(map(counting, self.clients))
        is_global = manifest is not None and manifest.global_symbols
        hybrids = [LibraryBackend.of(r, is_global) for r in records if r.library is not None]
        libraries = (*map(counting, self.libraries), *hybrids)
        own = {topology.platform for topology in self.topologies}
        described = [lib.topology_factory(find) for lib in libraries if lib.platform not in own]
        return replaced(
            self,
            clients=(
                *(r for r in records if r.library is None),
                *(library.client_factory(find) for library in libraries),
            ),
            topologies=(*self.topologies, *described),
            libraries=libraries,
            manifest=manifest,
        )

    def global_symbols(self) -> bool | None:
        """Return whether its library is opened with global symbols; None where it has none."""
        own = [lib for lib in self.libraries if lib.platform == self.ref.platform]
        return any(library.global_symbols for library in own) if own else None


def made_by(factory: ClientFactory, context: ClientContext) -> Client:
    """Return what a loaded plugin's factory makes; one with a library got a factory for it."""
    assert factory.factory is not None, "it was checked when its plugin was loaded"
    return factory.factory(context)


@record(frozen=True, slots=True)
class Backend:
    """A backend that was chosen, with all that making its client needs.

    Where there is no manifest, one is made of the record. ``memory_kinds`` are those that every
    plugin brings for its platform; ``added`` is the plugin that a call registered it with.
    """

    ref: PluginRef
    factory: ClientFactory
    manifest: BackendManifest
    memory_kinds: tuple[MemoryKind, ...] = ()
    added: Plugin | None = None

    def make(self, context: ClientContext) -> Client:
        """Call the plugin's factory."""
        return made_by(self.factory, context)

    @property
    def options(self) -> tuple[OptionSpec, ...]:
        """The configuration options that its client takes."""
        return self.factory.options
