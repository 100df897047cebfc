"""What plugins there are: references and manifests. Nothing of a plugin runs here."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence

from devrt._support.record import record
from devrt.errors import PluginError
from devrt.plugins.adoption.when_needed import Adoption, replaced_refs
from devrt.plugins.discovery.installed import discover_plugins
from devrt.plugins.discovery.refs import UNNAMED, PluginRef, in_order
from devrt.plugins.loading import api_version
from devrt.plugins.loading.manifest import BackendManifest
from devrt.plugins.loading.manifest_file import read_manifest
from devrt.records import Unavailable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.plugins.adoption.recording import RunEntries
    from devrt.plugins.loading.plugin import Plugin

__all__ = ["Callbacks", "Catalogue"]


@record(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What a runtime does for its registry of plugins.

    ``forbidden`` returns the names of plugins that are not imported, nor run in a child process.
    ``run_entries`` is as `devrt.plugins.adoption.recording` needs it; without it, what modules made
    for JAX register stays unknown. ``preflight`` and ``on_load`` are called before and after a
    plugin is loaded, and may raise `PluginError`. ``patience`` returns the seconds that one thread
    waits while another loads or probes the plugin that it needs; None for a minute. ``is_set``
    returns whether a variable is set, or the option that it is of.
    """

    forbidden: Callable[[], Sequence[str]] = tuple
    run_entries: RunEntries | None = None
    preflight: Callable[[PluginRef], None] = lambda ref: None
    on_load: Callable[[Plugin], None] = lambda plugin: None
    patience: Callable[[], float | None] = lambda: None
    is_set: Callable[[str], bool] = lambda variable: bool(os.environ.get(variable))


class Catalogue:
    """Finds plugins, at the first question, and reads their manifests, each once."""

    def __init__(
        self,
        discover: Callable[[], Iterable[PluginRef]] = discover_plugins,
        callbacks: Callbacks | None = None,
    ) -> None:
        self._discover = discover
        self._callbacks = callbacks or Callbacks()
        self._locks: dict[int, threading.RLock] = {}
        self._refs: tuple[PluginRef, ...] | None = None
        self._added: dict[PluginRef, Plugin] = {}
        self._manifests: dict[PluginRef, BackendManifest | PluginError | None] = {}
        self._missing: dict[tuple[PluginRef, frozenset[str]], Unavailable | None] = {}
        self._adoption = Adoption(self.manifest, self.is_forbidden, self._callbacks.run_entries)

    @property
    def _lock(self) -> threading.RLock:
        """The tables' lock, never held while plugin code runs.

        A forked child has one of its own: a thread that stayed behind may hold the parent's.
        """
        return self._locks.setdefault(os.getpid(), threading.RLock())

    def refs(self) -> tuple[PluginRef, ...]:
        """Return every plugin, found or registered by a call, by source and name."""
        with self._lock:
            if self._refs is None:
                self._refs = tuple(self._discover())
            return tuple(sorted({*self._refs, *self._added}, key=in_order))

    def is_forbidden(self, ref: PluginRef) -> bool:
        """Return whether a plugin is not to be imported, nor run in a child process."""
        return ref.is_among(self._callbacks.forbidden())

    def settle(self, names: Sequence[str] = (), *, retry: bool = False) -> bool:
        """Find out what platforms entries made for JAX serve, as far as ``names`` depend on it.

        Returns whether there was anything to find out; see `devrt.plugins.adoption.when_needed`.
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

    def replace_source(self, source: str, refs: Iterable[PluginRef]) -> None:
        """Put ``refs`` in the place of the plugins that were found in one source."""
        with self._lock:
            kept = (ref for ref in self.refs() if ref.source != source and ref not in self._added)
            self._refs = (*kept, *refs)

    def refresh(self) -> None:
        """Forget what is installed, and every manifest."""
        with self._lock:
            self._refs = None
            self._manifests.clear()
            self._missing.clear()

    def manifest(self, ref: PluginRef) -> BackendManifest | None:
        """Return what a plugin's distribution says of it in a file; None if it says nothing.

        Raises `PluginContractError` if that is not valid, or of a version that is not supported.
        """
        if ref not in self._manifests:
            # Two threads may read it, and read the same.
            self._manifests.setdefault(ref, self._read_manifest(ref))
        known = self._manifests[ref]
        if isinstance(known, PluginError):
            raise known.fresh()
        return known

    def _read_manifest(self, ref: PluginRef) -> BackendManifest | PluginError | None:
        if ref in self._added or ref.problem:
            return None
        try:
            found = read_manifest(ref, self.refs())
            if found is not None:
                api_version.check(ref, found.api_version)
            return found
        except PluginError as error:
            return error

    def variables(self) -> dict[str, tuple[str, ...]]:
        """Return the environment variables that manifests name, each with what it is read for."""
        found: dict[str, list[str]] = {}
        for ref in self.refs():
            try:
                manifest = self.manifest(ref)
            except PluginError:
                continue
            for variable in () if manifest is None else manifest.environment:
                found.setdefault(variable.name, []).append(f"{ref.platform}: {variable.about}")
        return {name: tuple(dict.fromkeys(about)) for name, about in sorted(found.items())}

    def missing(self, ref: PluginRef) -> Unavailable | None:
        """Return what the machine lacks by a plugin's manifest, which then is not imported."""
        if (manifest := self.manifest(ref)) is None:
            return None
        key = (ref, manifest.simulating(self._callbacks.is_set))
        if key not in self._missing:
            self._missing[key] = manifest.missing(simulating=key[1])
        return self._missing[key]

    def is_simulated(self, ref: PluginRef) -> bool:
        """Return whether a plugin's devices are to be simulated ones, by its manifest.

        Then neither what the machine has nor what the plugin's probe says of it counts.
        """
        manifest = self.manifest(ref)
        return manifest is not None and bool(manifest.simulating(self._callbacks.is_set))
