"""Plugins that were imported, each once, and what kept others from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from devrt.errors import PluginBusyError, PluginError, PluginLoadError
from devrt.plugins.catalogue import Callbacks, Catalogue
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.discovery.installed import discover_plugins
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.libraries import library_backend
from devrt.plugins.loading.load import Initialized, load_plugin
from devrt.plugins.loading.once import Once
from devrt.plugins.loading.plugin import Plugin
from devrt.records import PluginTraits, Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.contract import PjrtLoader
    from devrt.plugins.loading.manifest import BackendManifest

__all__ = ["LoadedPlugins"]

_PATIENCE = 60.0


class LoadedPlugins(Catalogue):
    """Imports plugins, each at most once, and keeps what failed. Parameters: see `Catalogue`."""

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

    def _patience(self, _: object) -> float:
        return self._callbacks.patience() or _PATIENCE

    def load(self, ref: PluginRef) -> Plugin:
        """Return the plugin, importing it the first time.

        Raises
        ------
        PluginError
            What the first attempt raised, on every call.
        """
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
                self._forget(ref)
            self._added[plugin.ref] = plugin
            if not plugin.ref.library:  # which is tried like any other
                self._loaded[plugin.ref] = bound

    def _forget(self, ref: PluginRef) -> None:
        self._loaded.pop(ref, None)

    def refresh(self) -> None:
        """Forget what is installed, every manifest, and what failed to load."""
        super().refresh()
        with self._lock:
            self._loaded = {r: p for r, p in self._loaded.items() if isinstance(p, Plugin)}

    def is_loaded(self, ref: PluginRef) -> bool:
        """Return whether a plugin was loaded here, so that its options are known."""
        return isinstance(self._loaded.get(ref), Plugin)

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
