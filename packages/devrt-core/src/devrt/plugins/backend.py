"""A backend that was chosen: the one object that all later steps take what they need from."""

from __future__ import annotations

from devrt._support.record import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.plugins.discovery.refs import PluginRef
    from devrt.plugins.loading.manifest import BackendManifest
    from devrt.plugins.loading.plugin import Plugin
    from devrt.records import ClientFactory, MemoryKind, OptionSpec

__all__ = ["Backend"]


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

    @property
    def options(self) -> tuple[OptionSpec, ...]:
        """The configuration options that its client takes."""
        return self.factory.options
