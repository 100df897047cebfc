"""The plugins of one runtime: who can serve a name, whether it works, and what it brings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from devrt.errors import PluginBusyError, PluginContractError, PluginError, PluginLoadError
from devrt.plugins.catalogue import Callbacks, Catalogue
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.discovery.installed import discover_plugins
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.judging import NOT_IMPORTED, SIMULATED, broken_by, probed
from devrt.plugins.loading.libraries import library_backend
from devrt.plugins.loading.load import Initialized, load_plugin
from devrt.plugins.loading.manifest import BackendManifest
from devrt.plugins.loading.once import Once
from devrt.plugins.loading.plugin import Backend, Plugin
from devrt.plugins.selection import Broken, Candidate
from devrt.records import (
    Available,
    ClientFactory,
    MemoryKind,
    PluginTraits,
    ProbeResult,
    TopologyFactory,
    Unavailable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.contract import PjrtLoader

__all__ = ["PluginRegistry"]

_PATIENCE = 60.0


class PluginRegistry(Catalogue):
    """Loads and probes plugins, each at most once, and resolves the one that is chosen.

    What failed is kept, until `refresh`.
    """

    def __init__(
        self,
        discover: Callable[[], Iterable[PluginRef]] = discover_plugins,
        callbacks: Callbacks | None = None,
    ) -> None:
        super().__init__(discover, callbacks)
        self._initialized: Initialized = {}
        self._loaded: dict[PluginRef, Plugin | PluginError] = {}
        # One module may serve several entry points, so modules are what is loaded once.
        self._loading: Once[str | PluginRef, Plugin | PluginError]
        self._loading = Once(lambda key: f"plugin {key} is being loaded", self._patience)
        self._probed: dict[PluginRef, ProbeResult | Broken] = {}
        self._probing: Once[PluginRef, ProbeResult | Broken]
        self._probing = Once(lambda ref: f"plugin {ref} is being probed", self._patience)

    def _patience(self, _: object) -> float:
        return self._callbacks.patience() or _PATIENCE

    def refresh(self) -> None:
        """Forget what is installed, every manifest and probe, and what failed to load."""
        super().refresh()
        self._probed.clear()
        with self._lock:
            self._loaded = {r: p for r, p in self._loaded.items() if isinstance(p, Plugin)}

    # -- loading ------------------------------------------------------------------------------

    def load(self, ref: PluginRef) -> Plugin:
        """Return the plugin, importing it the first time; every call raises what that raised."""
        if (known := self._loaded.get(ref)) is None:
            known = self._loading.get(
                ref.module or ref, lambda: self._loaded.get(ref), lambda: self._attempt(ref)
            )
        if isinstance(known, PluginError):
            raise known.fresh()
        return known

    def _attempt(self, ref: PluginRef) -> Plugin | PluginError:
        found: Plugin | PluginError
        try:
            self._callbacks.preflight(ref)
            manifest = self.manifest(ref)
            found = self._made(ref, manifest).bound(self.pjrt_loader, manifest)
            self._callbacks.on_load(found)
        except PluginBusyError:
            raise
        except PluginError as error:
            found = error
        with self._lock:
            return self._loaded.setdefault(ref, found)

    def _made(self, ref: PluginRef, manifest: BackendManifest | None) -> Plugin:
        if ref.problem and not ref.library:
            raise PluginLoadError(f"{ref.problem}.", phase="discovery", **ref.facts())
        if ref in self._added:
            return self._added[ref]
        if ref.library:
            return Plugin(ref, libraries=(library_backend(ref),))
        if ref.is_empty:
            return Plugin(ref)
        return load_plugin(ref, manifest, self._initialized)

    def load_quietly(self, ref: PluginRef) -> Plugin | None:
        """Return the plugin, importing it the first time; None where that failed."""
        try:
            return self.load(ref)
        except PluginBusyError:
            raise
        except PluginError:
            return None  # kept, and reported by `load_errors`

    def add(self, plugin: Plugin) -> None:
        """Add a plugin that a call registered; it replaces an earlier one of the same name."""
        bound = plugin.bound(self.pjrt_loader)
        self._callbacks.on_load(bound)  # its hooks run: plugin code, which needs no table of ours
        with self._lock:
            for ref in [ref for ref in self._added if ref.name == plugin.ref.name]:
                del self._added[ref]
                self._loaded.pop(ref, None)
                self._probed.pop(ref, None)
            self._added[plugin.ref] = plugin
            if not plugin.ref.library:  # which is tried like any other
                self._loaded[plugin.ref] = bound

    def is_loaded(self, ref: PluginRef) -> bool:
        """Return whether a plugin was loaded here, so that its options are known."""
        return isinstance(self._loaded.get(ref), Plugin)

    def undeclared_platforms(self) -> list[str]:
        """Return the platforms of plugins that may have options which are not known yet."""
        # What was made for JAX or XLA has none of its own, so that nothing waits for it.
        own = (ref for ref in self.refs() if not ref.is_adopted)
        return [ref.platform for ref in own if not self.is_loaded(ref)]

    def loaded(self) -> tuple[Plugin, ...]:
        """Return the plugins that were loaded so far, in the order of `refs`."""
        return tuple(plugin for plugin in self._tried() if isinstance(plugin, Plugin))

    def load_errors(self) -> tuple[PluginError, ...]:
        """Return the errors of the plugins that could not be loaded so far."""
        return tuple(error for error in self._tried() if isinstance(error, PluginError))

    def _tried(self) -> list[Plugin | PluginError | None]:
        with self._lock:
            return [self._loaded.get(ref) for ref in self.refs()]

    def opens_globally(self, ref: PluginRef) -> bool:
        """Return whether a plugin that was looked at opens its library with global symbols."""
        plugin, manifest = self._loaded.get(ref), self._manifests.get(ref)
        is_so = isinstance(plugin, Plugin) and plugin.global_symbols()
        return bool(is_so or ref.global_symbols or getattr(manifest, "global_symbols", False))

    # -- PJRT libraries -----------------------------------------------------------------------

    def pjrt_loader(self) -> PjrtLoader | Unavailable:
        """Return the loader of PJRT libraries, or why there is none.

        Only a plugin whose manifest says ``pjrt_loader = true`` is loaded to find it.
        """
        for ref in self.refs():
            plugin = self.load_quietly(ref) if self._says("pjrt_loader", ref) else None
            if plugin is not None and plugin.loader is not None:
                plugin.loader.use_traits(self.plugin_traits)
                return plugin.loader
        remedy = adopted_table().loader_remedy
        return Unavailable("no installed plugin can load PJRT libraries", remedy)

    def plugin_traits(self) -> tuple[PluginTraits, ...]:
        """Return what plugins say of kinds of PJRT libraries.

        Only those whose manifest says ``plugin_traits = true`` are loaded for it.
        """
        refs = [ref for ref in self.refs() if self._says("plugin_traits", ref)]
        found = [self.load_quietly(ref) for ref in refs if not self.is_forbidden(ref)]
        return tuple(traits for plugin in found if plugin is not None for traits in plugin.traits)

    def _says(self, key: str, ref: PluginRef) -> bool:
        if (added := self._added.get(ref)) is not None:
            return bool(added.loader or added.traits)
        try:
            return bool(getattr(self.manifest(ref), key, False))
        except PluginError:
            return False

    # -- who can serve a name -----------------------------------------------------------------

    def refs_for(self, names: Sequence[str]) -> tuple[PluginRef, ...]:
        """Return the plugins that can serve one of ``names``, loading as few as possible.

        An entry point says its platform by its name, so nothing is imported for a platform that is
        installed. Only a name that none has, an alias perhaps, makes the others load, unless their
        manifests say their aliases or they are forbidden.
        """
        refs = self.refs()
        if any(ref.is_guess for ref in refs) and self.settle(names):
            refs = self.refs()
        if not names:
            return refs
        direct = {ref for ref in refs if ref.is_among(names)}
        aliases = {name for name in names if not any(ref.is_called(name) for ref in direct)}
        if aliases:
            direct |= {ref for ref in refs if aliases & set(self.aliases(ref))}
        return tuple(ref for ref in refs if ref in direct)

    def aliases(self, ref: PluginRef) -> tuple[str, ...]:
        """Return the aliases of a plugin's platform, from its manifest if it has one."""
        try:
            manifest = self.manifest(ref)
            if manifest is not None:
                return manifest.aliases
            factory = None if self.is_forbidden(ref) else self.load(ref).client_factory()
        except PluginBusyError:
            raise  # nothing is known of it yet
        except PluginError:
            return ()
        return tuple(factory.aliases) if factory is not None else ()

    # -- whether it works ---------------------------------------------------------------------

    def candidates(
        self, names: Sequence[str] = (), *, regardless: bool = False
    ) -> tuple[Candidate, ...]:
        """Load and probe the plugins that can serve ``names`` (all, if empty).

        Those that are forbidden are listed without being imported, unless ``regardless`` of that.
        """
        found = self._judged(names, regardless)
        if names and not any(isinstance(candidate.state, Available) for candidate in found):
            # Who serves the name cannot: another plugin may, under a name that nobody knows yet.
            return self._judged(names, regardless) if self.settle() else found
        return found

    def _judged(self, names: Sequence[str], regardless: bool) -> tuple[Candidate, ...]:
        judged = (
            Candidate(ref, NOT_IMPORTED, aliases=self.aliases(ref) if names else ())
            if not regardless and self.is_forbidden(ref)
            else self.candidate(ref)
            for ref in self.refs_for(names)
        )
        return tuple(candidate for candidate in judged if candidate is not None)

    def candidate(self, ref: PluginRef) -> Candidate | None:
        """Load and probe one plugin; None if it serves no platform by itself.

        A plugin whose manifest names what the machine lacks is not imported.
        """
        try:
            facts: BackendManifest | ClientFactory | None = self.manifest(ref)
            state: ProbeResult | Broken | None = None if facts is None else self.missing(ref)
            if state is None:
                facts = factory = self.load(ref).client_factory()
                state = None if factory is None else self._probe(ref, factory)
        except PluginBusyError:
            raise  # no verdict on it: it would be another one in a moment
        except PluginError as error:
            return Candidate(ref, broken_by(ref, error, str(getattr(error, "phase", "load"))))
        if facts is None or state is None:
            return None
        return Candidate(ref, state, facts.priority, tuple(facts.aliases), facts.experimental)

    def _probe(self, ref: PluginRef, factory: ClientFactory) -> ProbeResult | Broken:
        if factory.simulates and self.is_simulated(ref):
            return SIMULATED

        def probe() -> ProbeResult | Broken:
            return self._probed.setdefault(ref, probed(ref, factory))

        return self._probing.get(ref, lambda: self._probed.get(ref), probe)

    # -- what it brings -----------------------------------------------------------------------

    def resolve(self, ref: PluginRef) -> Backend:
        """Return all that making a client needs of a plugin that `candidate` found usable."""
        plugin, kinds = self.load(ref), self.memory_kinds(ref.platform)
        if (factory := plugin.client_factory()) is None:
            msg = f"plugin {ref} has no client factory for platform {ref.platform!r}."
            raise PluginContractError(msg, plugin=ref.distribution, platform=ref.platform)
        manifest = plugin.manifest or BackendManifest.of(factory)
        return Backend(ref, factory, manifest, kinds, self._added.get(ref))

    def memory_kinds(self, platform: str) -> tuple[MemoryKind, ...]:
        """Return the memory kinds that its plugins and other loaded ones bring for a platform."""
        plugins = self._loaded_for(platform)
        kinds = (kind for p in plugins for kind in p.memory_kinds if kind.platform == platform)
        return tuple(dict.fromkeys(kinds))  # a module with two entry points says it twice

    def topologies(self, platform: str) -> tuple[tuple[PluginRef, TopologyFactory], ...]:
        """Return who describes a platform: its own plugins, and others that are loaded."""
        return tuple(
            (plugin.ref, record)
            for plugin in self._loaded_for(platform, also_absent=True)
            for record in plugin.topologies
            if record.platform == platform
        )

    def _loaded_for(self, platform: str, *, also_absent: bool = False) -> tuple[Plugin, ...]:
        """Return the loaded plugins, all among them that add to a platform or serve it.

        Those that the machine lacks the devices for are loaded only if ``also_absent``.
        """
        for ref in self.refs_for((platform,)):
            is_new = ref not in self._loaded and not self.is_forbidden(ref)
            if is_new and (also_absent or self._is_here(ref)):
                self.load_quietly(ref)
        return self.loaded()

    def _is_here(self, ref: PluginRef) -> bool:
        try:
            return self.missing(ref) is None
        except PluginError:
            return False
