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

    Attributes
    ----------
    ref : PluginRef
        Where it comes from.
    factory : ClientFactory
        Its record, in which the manifest's words count.
    manifest : BackendManifest
        What its plugin says in a file; made of the record for a plugin without one.
    memory_kinds : tuple of MemoryKind
        Every memory kind that a plugin brings for its platform.
    added : Plugin or None
        The plugin that a call registered it with; None for one that was found.
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
