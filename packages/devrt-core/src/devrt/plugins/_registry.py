"""The plugins of one runtime: found once, loaded only when a question needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pluggy

from devrt.errors import PluginContractError, PluginError
from devrt.plugins._discovery import PluginRef, installed_plugins
from devrt.plugins._loading import Plugin, load_plugin, make_plugin_manager
from devrt.plugins._selection import Broken, Candidate
from devrt.records import Available, ClientFactory, MemoryKind, ProbeResult, Unavailable

__all__ = ["PluginRegistry"]


class PluginRegistry:
    """Finds, loads and probes plugins, each at most once, and keeps what failed.

    Parameters
    ----------
    discover
        Returns the installed plugins; called at the first question.
    on_load
        Called with each plugin after it was loaded.
    """

    def __init__(
        self,
        discover: Callable[[], Iterable[PluginRef]] = installed_plugins,
        on_load: Callable[[Plugin], None] | None = None,
    ) -> None:
        self._discover = discover
        self._on_load = on_load
        self._lock = threading.RLock()
        self._manager: pluggy.PluginManager | None = None
        self._refs: tuple[PluginRef, ...] | None = None
        self._added: dict[PluginRef, Plugin] = {}
        self._loaded: dict[PluginRef, Plugin | PluginError] = {}
        self._probed: dict[PluginRef, ProbeResult | Broken] = {}

    def refs(self) -> tuple[PluginRef, ...]:
        """Return every plugin, installed or added by `add`, sorted; imports nothing."""
        with self._lock:
            if self._refs is None:
                self._refs = tuple(self._discover())
            return tuple(sorted({*self._refs, *self._added}))

    def add(self, plugin: Plugin) -> None:
        """Add a plugin that a call registered; it replaces an earlier one of the same name."""
        with self._lock:
            if self._on_load is not None:
                self._on_load(plugin)
            for ref in [ref for ref in self._added if ref.name == plugin.ref.name]:
                del self._added[ref]
                self._loaded.pop(ref, None)
                self._probed.pop(ref, None)
            self._added[plugin.ref] = plugin
            self._loaded[plugin.ref] = plugin

    def refresh(self) -> None:
        """Forget which plugins are installed, what failed to load, and every probe's answer."""
        with self._lock:
            self._refs = None
            self._probed.clear()
            self._loaded = {r: p for r, p in self._loaded.items() if isinstance(p, Plugin)}

    def load(self, ref: PluginRef) -> Plugin:
        """Return the plugin, importing it the first time.

        Raises
        ------
        PluginError
            What the first attempt raised, on every call.
        """
        with self._lock:
            known = self._loaded.get(ref)
            if known is None:
                known = self._loaded[ref] = self._attempt(ref)
            if isinstance(known, PluginError):
                raise known.fresh()
            return known

    def load_errors(self) -> tuple[PluginError, ...]:
        """Return the errors of the plugins that could not be loaded so far."""
        with self._lock:
            failed = [self._loaded.get(ref) for ref in self.refs()]
        return tuple(error for error in failed if isinstance(error, PluginError))

    def refs_for(self, names: Sequence[str]) -> tuple[PluginRef, ...]:
        """Return the plugins that can serve one of ``names``, loading as few as possible.

        An entry point says its platform by its name, so nothing is imported for a platform that is
        installed. Only a name that none has, an alias perhaps, makes the others load.
        """
        refs = self.refs()
        if not names:
            return refs
        direct = {ref for ref in refs if ref.platform in names or ref.name in names}
        met = {name for ref in direct for name in (ref.platform, ref.name)}
        aliases = set(names) - met
        if aliases:
            direct |= {ref for ref in refs if aliases & set(self._aliases(ref))}
        return tuple(ref for ref in refs if ref in direct)

    def candidates(self, names: Sequence[str] = ()) -> tuple[Candidate, ...]:
        """Load and probe the plugins that can serve ``names`` (all, if empty)."""
        return tuple(
            candidate
            for ref in self.refs_for(names)
            if (candidate := self.candidate(ref)) is not None
        )

    def candidate(self, ref: PluginRef) -> Candidate | None:
        """Load and probe one plugin; None if it serves no platform by itself."""
        with self._lock:
            try:
                factory = self.load(ref).client_factory()
            except PluginError as error:
                phase = str(getattr(error, "phase", "load"))
                return Candidate(ref, Broken(phase, error.message, _reinstall(ref)))
            if factory is None:
                return None
            state = self._probed.get(ref)
            if state is None:
                state = self._probed[ref] = _probe(ref, factory)
            return Candidate(
                ref, state, factory.priority, tuple(factory.aliases), factory.experimental
            )

    def factory(self, ref: PluginRef) -> ClientFactory:
        """Return the client factory of a plugin that `candidate` found usable."""
        factory = self.load(ref).client_factory()
        if factory is None:
            msg = f"plugin {ref} has no client factory for platform {ref.platform!r}."
            raise PluginContractError(msg, plugin=ref.distribution, platform=ref.platform)
        return factory

    def memory_kinds(self, platform: str) -> tuple[MemoryKind, ...]:
        """Return the memory kinds that its plugins and other loaded ones bring for a platform."""
        self.candidates((platform,))  # loads those that add to the platform but do not serve it
        with self._lock:
            plugins = [self._loaded.get(ref) for ref in self.refs()]
        kinds = (
            kind
            for plugin in plugins
            if isinstance(plugin, Plugin)
            for kind in plugin.memory_kinds
            if kind.platform == platform
        )
        return tuple(dict.fromkeys(kinds))  # a module with two entry points says it twice

    def _aliases(self, ref: PluginRef) -> tuple[str, ...]:
        try:
            factory = self.load(ref).client_factory()
        except PluginError:
            return ()
        return tuple(factory.aliases) if factory is not None else ()

    def _attempt(self, ref: PluginRef) -> Plugin | PluginError:
        if self._manager is None:
            self._manager = make_plugin_manager()
        try:
            plugin = load_plugin(self._manager, ref)
            if self._on_load is not None:
                self._on_load(plugin)
        except PluginError as error:
            return error
        return plugin


def _probe(ref: PluginRef, factory: ClientFactory) -> ProbeResult | Broken:
    answer: Any  # whatever the plugin returns
    try:
        answer = factory.probe()
    except (Exception, SystemExit) as error:  # noqa: BLE001  plugin code: a probe may do anything
        reason = f"its probe raised {type(error).__name__}: {error}"
        return Broken("probe", reason, _reinstall(ref))
    if isinstance(answer, Available | Unavailable):
        return answer
    reason = f"its probe returned {type(answer).__name__}, not Available or Unavailable"
    return Broken("contract", reason, _reinstall(ref))


def _reinstall(ref: PluginRef) -> str:
    return f"Upgrade {ref.distribution} or report this to its author; or uninstall it."
