"""The plugins of one runtime: found once, loaded only when a question needs them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from devrt.errors import PluginBusyError, PluginContractError, PluginError, PluginLoadError
from devrt.plugins.adoption.when_needed import Adoption, replaced_refs
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.discovery.installed import discover_plugins
from devrt.plugins.discovery.refs import UNNAMED, PluginRef, in_order
from devrt.plugins.loading import api_version
from devrt.plugins.loading.judging import NOT_IMPORTED, broken_by, check_manifest, probed
from devrt.plugins.loading.libraries import library_backend
from devrt.plugins.loading.manifest import BackendManifest, read_manifest
from devrt.plugins.loading.once import Once
from devrt.plugins.loading.plugin import Initialized, Plugin, load_plugin
from devrt.plugins.selection import Broken, Candidate
from devrt.probing.preflight import Preflight
from devrt.records import (
    Available,
    ClientFactory,
    MemoryKind,
    ProbeResult,
    TopologyFactory,
    Unavailable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.contract import PjrtLoader

__all__ = ["PluginRegistry"]

_PATIENCE = 60.0


class PluginRegistry:
    """Finds, loads and probes plugins, each at most once, and keeps what failed.

    Parameters
    ----------
    discover
        Returns the plugins there are; called at the first question.
    on_load
        Called with each plugin after it was loaded.
    isolation
        Returns the seconds that a plugin may take in a child process before it is loaded here;
        None to load it without.
    patience
        Returns the seconds that one thread waits while another loads or probes the plugin that it
        needs; None for a minute.
    forbidden
        Returns the names of plugins that are not imported, nor run in a child process.
    """

    def __init__(
        self,
        discover: Callable[[], Iterable[PluginRef]] = discover_plugins,
        on_load: Callable[[Plugin], None] | None = None,
        isolation: Callable[[], float | None] = lambda: None,
        patience: Callable[[], float | None] = lambda: None,
        forbidden: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._discover = discover
        self._on_load = on_load
        self._forbidden = forbidden
        self._preflight = Preflight(isolation)
        self._locks: dict[int, threading.RLock] = {}
        self._initialized: Initialized = {}
        self._refs: tuple[PluginRef, ...] | None = None
        self._adoption = Adoption(self.manifest, self.is_forbidden)
        self._added: dict[PluginRef, Plugin] = {}
        self._loaded: dict[PluginRef, Plugin | PluginError] = {}
        self._probed: dict[PluginRef, ProbeResult | Broken] = {}
        self._manifests: dict[PluginRef, BackendManifest | PluginError | None] = {}
        self._missing: dict[PluginRef, Unavailable | None] = {}

        def wait(_: object) -> float:
            return patience() or _PATIENCE

        # One module may serve several entry points, so modules are what is loaded once.
        self._loading: Once[str | PluginRef, Plugin | PluginError]
        self._loading = Once(lambda key: f"plugin {key} is being loaded", wait)
        self._probing: Once[PluginRef, ProbeResult | Broken]
        self._probing = Once(lambda ref: f"plugin {ref} is being probed", wait)

    @property
    def _lock(self) -> threading.RLock:
        """The tables' lock, never held while plugin code runs.

        A forked child has one of its own: a thread that stayed behind may hold the parent's.
        """
        return self._locks.setdefault(os.getpid(), threading.RLock())

    # -- what there is ------------------------------------------------------------------------

    def refs(self) -> tuple[PluginRef, ...]:
        """Return every plugin, found or added by `add`, by source and name; imports nothing."""
        with self._lock:
            if self._refs is None:
                self._refs = tuple(self._discover())
            return tuple(sorted({*self._refs, *self._added}, key=in_order))

    def is_forbidden(self, ref: PluginRef) -> bool:
        """Return whether a plugin is not to be imported, nor run in a child process."""
        return ref.is_among(self._forbidden())

    def settle(self, names: Sequence[str] = (), *, retry: bool = False) -> bool:
        """Find out what platforms entries made for JAX serve, as far as ``names`` depend on it.

        Returns whether there was anything to find out; see `adoption.when_needed`.
        """
        if not (found := self._adoption.replacements(self.refs(), names, retry=retry)):
            return False
        with self._lock:
            kept = [ref for ref in self.refs() if ref not in self._added]
            self._refs = replaced_refs(kept, found)
        return True

    def problems(self) -> tuple[str, ...]:
        """Return what is wrong with entries that name no platform; they belong in every error."""
        return tuple(ref.problem for ref in self.refs() if ref.platform == UNNAMED)

    def add(self, plugin: Plugin) -> None:
        """Add a plugin that a call registered; it replaces an earlier one of the same name."""
        with self._lock:
            bound = plugin.bound(self.pjrt_loader)
            if self._on_load is not None:
                self._on_load(bound)
            for ref in [ref for ref in self._added if ref.name == plugin.ref.name]:
                del self._added[ref]
                self._loaded.pop(ref, None)
                self._probed.pop(ref, None)
            self._added[plugin.ref] = plugin
            if not plugin.ref.library:  # which is tried like any other
                self._loaded[plugin.ref] = bound

    def replace_source(self, source: str, refs: Iterable[PluginRef]) -> None:
        """Put ``refs`` in the place of the plugins that were found in one source."""
        with self._lock:
            kept = (ref for ref in self.refs() if ref.source != source and ref not in self._added)
            self._refs = (*kept, *refs)

    def refresh(self) -> None:
        """Forget what is installed, every manifest and probe, and what failed to load."""
        with self._lock:
            self._refs = None
            self._probed.clear()
            self._manifests.clear()
            self._missing.clear()
            self._loaded = {r: p for r, p in self._loaded.items() if isinstance(p, Plugin)}

    def manifest(self, ref: PluginRef) -> BackendManifest | None:
        """Return what a plugin's distribution says of it in a file; None if it says nothing.

        Raises
        ------
        PluginContractError
            If the manifest is not valid, or of a version of the contract that is not supported.
        """
        if ref not in self._manifests:
            added = ref in self._added or bool(ref.problem)
            found: BackendManifest | PluginError | None
            try:
                found = None if added else read_manifest(ref, self.refs())
                if found is not None:
                    api_version.check(ref, found.api_version)
            except PluginError as error:
                found = error
            self._manifests.setdefault(ref, found)  # two threads may read it, and read the same
        known = self._manifests[ref]
        if isinstance(known, PluginError):
            raise known.fresh()
        return known

    # -- loading ------------------------------------------------------------------------------

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

    def opens_globally(self, ref: PluginRef) -> bool:
        """Return whether a plugin that was looked at opens its library with global symbols."""
        plugin, manifest = self._loaded.get(ref), self._manifests.get(ref)
        is_so = isinstance(plugin, Plugin) and plugin.global_symbols()
        return bool(is_so or ref.global_symbols or getattr(manifest, "global_symbols", False))

    def is_loaded(self, ref: PluginRef) -> bool:
        """Return whether a plugin was loaded here, so that its options are known."""
        return isinstance(self._loaded.get(ref), Plugin)

    def load_errors(self) -> tuple[PluginError, ...]:
        """Return the errors of the plugins that could not be loaded so far."""
        return tuple(error for error in self._tried() if isinstance(error, PluginError))

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
            if self.is_forbidden(ref):
                return ()
            factory = self.load(ref).client_factory()
        except PluginBusyError:
            raise  # nothing is known of it yet
        except PluginError:
            return ()
        return tuple(factory.aliases) if factory is not None else ()

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
            manifest = self.manifest(ref)
            if manifest is not None:
                if ref not in self._missing:
                    self._missing[ref] = manifest.missing()
                if (missing := self._missing[ref]) is not None:
                    return Candidate(
                        ref, missing, manifest.priority, manifest.aliases, manifest.experimental
                    )
            factory = self.load(ref).client_factory()
        except PluginBusyError:
            raise  # no verdict on it: it would be another one in a moment
        except PluginError as error:
            return Candidate(ref, broken_by(ref, error, str(getattr(error, "phase", "load"))))
        if factory is None:
            return None
        state = self._probe(ref, factory)
        return Candidate(ref, state, factory.priority, tuple(factory.aliases), factory.experimental)

    def _probe(self, ref: PluginRef, factory: ClientFactory) -> ProbeResult | Broken:
        def probe() -> ProbeResult | Broken:
            return self._probed.setdefault(ref, probed(ref, factory))

        return self._probing.get(ref, lambda: self._probed.get(ref), probe)

    def factory(self, ref: PluginRef) -> ClientFactory:
        """Return the client factory of a plugin that `candidate` found usable."""
        if (factory := self.load(ref).client_factory()) is None:
            msg = f"plugin {ref} has no client factory for platform {ref.platform!r}."
            raise PluginContractError(msg, plugin=ref.distribution, platform=ref.platform)
        return factory

    def memory_kinds(self, platform: str) -> tuple[MemoryKind, ...]:
        """Return the memory kinds that its plugins and other loaded ones bring for a platform."""
        self.candidates((platform,))  # loads those that add to the platform but do not serve it
        kinds = (
            kind
            for plugin in self._loaded_plugins()
            for kind in plugin.memory_kinds
            if kind.platform == platform
        )
        return tuple(dict.fromkeys(kinds))  # a module with two entry points says it twice

    def topologies(self, platform: str) -> tuple[tuple[PluginRef, TopologyFactory], ...]:
        """Return who describes a platform: its own plugins, and others that are loaded."""
        for ref in self.refs_for((platform,)):
            if not self.is_forbidden(ref):
                self._load_quietly(ref)  # also where the machine lacks the devices
        return tuple(
            (plugin.ref, record)
            for plugin in self._loaded_plugins()
            for record in plugin.topologies
            if record.platform == platform
        )

    def pjrt_loader(self) -> PjrtLoader | Unavailable:
        """Return the loader of PJRT libraries, or why there is none.

        Only a plugin whose manifest says ``pjrt_loader = true`` is loaded to find it.
        """
        for ref in self.refs():
            plugin = self._load_quietly(ref) if self._says_loader(ref) else None
            if plugin is not None and plugin.loader is not None:
                return plugin.loader
        remedy = adopted_table().loader_remedy
        return Unavailable("no installed plugin can load PJRT libraries", remedy)

    def _says_loader(self, ref: PluginRef) -> bool:
        try:
            manifest = self.manifest(ref)
        except PluginError:
            return False
        added = self._added.get(ref)
        return bool(manifest and manifest.pjrt_loader) or bool(added and added.loader)

    def _load_quietly(self, ref: PluginRef) -> Plugin | None:
        try:
            return self.load(ref)
        except PluginBusyError:
            raise
        except PluginError:
            return None  # kept, and told by `candidate` and `load_errors`

    def _loaded_plugins(self) -> list[Plugin]:
        return [plugin for plugin in self._tried() if isinstance(plugin, Plugin)]

    def _tried(self) -> list[Plugin | PluginError | None]:
        with self._lock:
            return [self._loaded.get(ref) for ref in self.refs()]

    def _attempt(self, ref: PluginRef) -> Plugin | PluginError:
        found: Plugin | PluginError
        try:
            self._preflight.load(ref)
            found = self._from(ref).bound(self.pjrt_loader)
            if self._on_load is not None:
                self._on_load(found)
        except PluginBusyError:
            raise
        except PluginError as error:
            found = error
        with self._lock:
            return self._loaded.setdefault(ref, found)

    def try_client(self, ref: PluginRef, options: Mapping[str, Any]) -> Broken | None:
        """Let a child process make the client first, where isolation is requested."""
        manifest, added = self.manifest(ref), self._added.get(ref)
        is_exclusive = manifest is not None and manifest.exclusive
        if is_exclusive or (added is not None and not ref.library):
            return None  # of what a call registered, only a library is known in another process
        return self._preflight.client(ref, options, added)

    def _from(self, ref: PluginRef) -> Plugin:
        if ref.problem and not ref.library:
            raise PluginLoadError(f"{ref.problem}.", phase="discovery", **ref.facts())
        if ref in self._added:
            return self._added[ref]
        manifest = self.manifest(ref)
        if ref.library:
            return Plugin(ref, libraries=(library_backend(ref, manifest),))
        if ref.is_empty:
            return Plugin(ref)
        built_against = None if manifest is None else manifest.api_version
        return load_plugin(ref, self._initialized, self._check_manifest, built_against)

    def _check_manifest(self, plugin: Plugin) -> None:
        factory = plugin.bound(self.pjrt_loader).client_factory()
        check_manifest(plugin, self.manifest(plugin.ref), factory)
