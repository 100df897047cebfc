"""Importing a plugin's module and taking its records: the first guarded place of plugin code."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, TypeVar

import pluggy

from devrt import hookspecs
from devrt._support import log
from devrt._support.record import UnknownFieldError, record, replaced
from devrt.errors import ForkedError, PluginBusyError, PluginError, PluginLoadError
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading import api_version
from devrt.plugins.loading.faults import contract_error
from devrt.plugins.loading.libraries import LibraryBackend
from devrt.plugins.loading.registrations import Registrations, collect_registrations
from devrt.records import (
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
    from devrt.contract import PjrtLoader
    from devrt.plugins.loading.manifest import BackendManifest

__all__ = ["Initialized", "Plugin", "load_plugin"]

_Record = TypeVar(
    "_Record", ClientFactory, TopologyFactory, MemoryKind, PluginTraits, DoctorFinding
)

_LOADER_HOOK = "devrt_pjrt_loader"
_DOCTOR_HOOK = "devrt_doctor_findings"
_HOOKS = (
    "devrt_client_factories",
    _DOCTOR_HOOK,
    "devrt_memory_kinds",
    _LOADER_HOOK,
    "devrt_plugin_traits",
    "devrt_topology_factories",
)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value == value.lower()


def _are(kind: type, values: Any) -> bool:
    return isinstance(values, tuple | list) and all(isinstance(value, kind) for value in values)


_CODE = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_UNSET = object()
_CALLED = "factory probe environment adapt_options adapt_topology compiler_flags explain".split()
_FIELDS: Mapping[str, Callable[[Any], bool]] = {
    "platform": _is_name,
    "aliases": lambda value: _are(str, value) and all(map(_is_name, value)),
    "priority": lambda value: isinstance(value, int),
    "options": lambda value: _are(OptionSpec, value),
    "kind": _is_name,
    "code": lambda value: isinstance(value, str) and _CODE.fullmatch(value) is not None,
    "message": lambda value: isinstance(value, str) and bool(value.strip()),
    "extensions": lambda value: _are(int, value),
    "severity": lambda value: value in ("error", "warning", "info"),
    "api_version": lambda value: value is None or api_version.is_version(value),
    **dict.fromkeys(_CALLED, callable),
    **dict.fromkeys(("experimental", "fail_quietly"), lambda value: isinstance(value, bool)),
    **dict.fromkeys(("remedy", "command"), lambda value: isinstance(value, str)),
    **dict.fromkeys(("patterns", "platforms"), lambda value: _are(str, value)),
}


@record(frozen=True, slots=True)
class Plugin:
    """A loaded plugin: the records that its hooks returned.

    Attributes
    ----------
    ref : PluginRef
        Where it comes from.
    clients : tuple of ClientFactory
        At most one for each platform.
    topologies : tuple of TopologyFactory
        In the order the plugin gave them.
    memory_kinds : tuple of MemoryKind
        In the order the plugin gave them.
    libraries : tuple of LibraryBackend
        PJRT libraries that it serves platforms with; a registry makes clients' records of them.
    loader : PjrtLoader, optional
        How it loads such libraries, its own and others'.
    traits : tuple of PluginTraits
        What it says of kinds of such libraries.
    manifest : BackendManifest, optional
        What its distribution says of it in a file.
    findings : callable, optional
        Asks it what it has to say to the doctor; returns checked `DoctorFinding` records. Plugin
        code runs in it.
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

        What a manifest says of the platform stands in its records from then on.
        """

        def counting(made: Any) -> Any:
            if manifest is None or made.platform != self.ref.platform:
                return made
            overruled = manifest.overruled(made) if self.ref.module else ()
            if overruled:
                log.info("the manifest of %s overrules its record in %s", self.ref, overruled)
            return manifest.over(made)

        libraries = tuple(map(counting, self.libraries))
        clients = [library.client_factory(find) for library in libraries]
        described = [library.topology_factory(find) for library in libraries]
        return replaced(
            self,
            clients=(*map(counting, self.clients), *clients),
            topologies=(*self.topologies, *described),
            libraries=libraries,
            manifest=manifest,
        )

    def global_symbols(self) -> bool | None:
        """Return whether its library is opened with global symbols; None where it has none."""
        own = [lib for lib in self.libraries if lib.platform == self.ref.platform]
        return any(library.global_symbols for library in own) if own else None


Initialized = dict[ModuleType, Registrations]
"""What modules without hooks registered by calls, each at its one ``initialize()``."""


def load_plugin(
    ref: PluginRef,
    manifest: BackendManifest | None = None,
    initialized: Initialized | None = None,
) -> Plugin:
    """Import a plugin's module, register its hooks and collect its records.

    The hooks go through a plugin manager of the plugin's own: no plugin sees another, and one that
    fails leaves no trace. A module without hooks that has a function ``initialize`` has it called
    instead, once, and what it registers meanwhile are the plugin's records.

    Parameters
    ----------
    ref
        The plugin.
    manifest
        What its distribution says of it; None if it says nothing.
    initialized
        Remembers which modules' ``initialize`` was called.

    Raises
    ------
    PluginLoadError
        If the module cannot be imported or a hook fails.
    ForkedError
        If a thread that stayed in this process's parent was importing what the plugin imports.
    PluginContractError
        If a hook is misspelt or returns what the contract does not allow.
    """
    if ":" in ref.module:
        raise contract_error(ref, f"its entry point must name a module, not {ref.module!r}")
    built_against = None if manifest is None else manifest.api_version
    module = _import(ref, built_against)
    manager = pluggy.PluginManager(hookspecs.PROJECT_NAME)
    try:
        _register(manager, module)
        if not manager.get_hookcallers(module) and callable(getattr(module, "initialize", None)):
            plugin = _initialize({} if initialized is None else initialized, ref, module)
        else:
            plugin = _collect(manager, ref, module, built_against)
        _check_loader(plugin, manifest)
        log.debug("plugin %s was loaded: module %s", ref.name, ref.module)
        return plugin
    except (ForkedError, PluginError):
        raise
    except UnknownFieldError as error:
        raise api_version.unknown_field(ref, error, built_against) from error
    except (Exception, SystemExit) as error:  # plugin code: anything may come out of a hook
        has_hooks = bool(manager.get_hookcallers(module))
        what = "its hooks" if has_hooks else "the initialize() of its module"
        msg = (
            f"plugin {ref} failed while {what} for platform {ref.platform!r} "
            f"{'were' if has_hooks else 'was'} called: "
            f"{type(error).__name__}: {error}."
        )
        remedy = f"Report it to its author, or uninstall {ref.distribution}."
        raise _load_error(ref, msg, _remedy(ref, built_against, remedy)) from error


def _remedy(ref: PluginRef, built_against: str | int | None, usual: str) -> str:
    """Return what to do about a failure; a plugin newer than devrt may well need another devrt."""
    return api_version.remedy(ref, "devrt-core") if api_version.is_newer(built_against) else usual


def _register(manager: pluggy.PluginManager, module: ModuleType) -> None:
    manager.add_hookspecs(hookspecs)
    manager.register(module)


def _import(ref: PluginRef, built_against: str | int | None) -> ModuleType:
    try:
        module = importlib.import_module(ref.module)
    except ModuleNotFoundError as error:
        missing = error.name or "a module"
        is_own = f"{ref.module}.".startswith(f"{missing}.")
        whose = "its own module" if is_own else "a module that it needs"
        msg = (
            f"plugin {ref} for platform {ref.platform!r} cannot be imported: {whose}, {missing!r}, "
            "is not installed."
        )
        from devrt.plugins.discovery.known import install_command  # only where something is wrong

        command = install_command(ref.distribution, options="--force-reinstall")
        remedy = f"Reinstall it with: {command}"
        raise _load_error(ref, msg, remedy, missing=missing) from error
    except ForkedError:
        raise  # of this process, not of the plugin
    except (Exception, SystemExit) as error:  # plugin code: importing runs whatever it likes
        msg = (
            f"plugin {ref} for platform {ref.platform!r} cannot be imported: importing "
            f"{ref.module!r} raised {type(error).__name__}: {error}."
        )
        remedy = f"Reinstall or upgrade it, or uninstall {ref.distribution}."
        raise _load_error(ref, msg, _remedy(ref, built_against, remedy)) from error
    if getattr(module.__spec__, "_initializing", False):  # as the import system itself tells it
        msg = (
            f"plugin {ref} was requested while its module {ref.module!r} is being imported. Ask "
            "devrt for nothing while a plugin is imported; its author must fix that."
        )
        raise PluginBusyError(msg, phase="load", **ref.facts())
    return module


def _initialize(initialized: Initialized, ref: PluginRef, module: Any) -> Plugin:
    found = initialized.get(module)
    if found is None:
        with collect_registrations() as found:
            module.initialize()
    if not found.clients and not found.libraries:
        msg = f"the initialize() of its module {ref.module!r} registered no backend"
        raise contract_error(ref, msg)
    initialized[module] = found
    libraries = tuple(found.libraries)
    plugin = Plugin(ref, tuple(found.clients), tuple(found.topologies), libraries=libraries)
    for made in (*plugin.clients, *plugin.topologies):
        _check_fields(ref, made)
    _check_platforms(ref, plugin)
    return plugin


def _collect(
    manager: pluggy.PluginManager, ref: PluginRef, module: ModuleType, built: str | int | None
) -> Plugin:
    implemented = _check_hooks(manager, ref, module)

    def records(hook: str, kind: type[_Record]) -> tuple[_Record, ...]:
        answers = _call(manager, hook)
        if hook in implemented and not answers:  # pluggy leaves None out
            raise contract_error(ref, f"{hook} must return a list of {kind.__name__}, not None")
        return tuple(r for answer in answers for r in _typed(ref, hook, answer, kind, built))

    plugin = Plugin(
        ref,
        records("devrt_client_factories", ClientFactory),
        records("devrt_topology_factories", TopologyFactory),
        records("devrt_memory_kinds", MemoryKind),
        loader=_loader(ref, _call(manager, _LOADER_HOOK), implemented),
        traits=records("devrt_plugin_traits", PluginTraits),
        findings=(lambda: records(_DOCTOR_HOOK, DoctorFinding))
        if _DOCTOR_HOOK in implemented
        else None,
    )
    _check_platforms(ref, plugin)
    return plugin


def _call(manager: pluggy.PluginManager, hook: str) -> list[Any]:
    answers: list[Any] = getattr(manager.hook, hook)()
    return answers


def _loader(ref: PluginRef, answers: list[Any], implemented: set[str]) -> PjrtLoader | None:
    if _LOADER_HOOK not in implemented:
        return None
    from devrt.contract import PjrtLoader  # few plugins bring one
    from devrt.contract.members import members

    answer = answers[0] if answers else None
    if not isinstance(answer, PjrtLoader):
        kind = "None" if answer is None else type(answer).__name__
        raise contract_error(ref, f"{_LOADER_HOOK} must return a PjrtLoader, not {kind}")
    for name in members(PjrtLoader):
        if not callable(value := getattr(answer, name)):
            raise contract_error(ref, f"PjrtLoader.{name} cannot be {value!r}")
    return answer


def _check_loader(plugin: Plugin, manifest: BackendManifest | None) -> None:
    """Refuse a loader that no manifest tells of, so that it would not be found, and the reverse."""
    is_promised = manifest is not None and manifest.pjrt_loader
    if is_promised and plugin.loader is None:
        what = f"its manifest says pjrt_loader = true, and it has no hook {_LOADER_HOOK}"
        raise contract_error(plugin.ref, what)
    if plugin.loader is not None and not is_promised:
        what = f"it has the hook {_LOADER_HOOK} and no manifest with pjrt_loader = true"
        raise contract_error(plugin.ref, what)


def _check_hooks(manager: pluggy.PluginManager, ref: PluginRef, module: ModuleType) -> set[str]:
    callers = manager.get_hookcallers(module) or []
    misspelt = [
        caller.name
        for caller in callers
        if caller.spec is None and not all(impl.optionalhook for impl in caller.get_hookimpls())
    ]
    known = ", ".join(_HOOKS)
    if misspelt:
        msg = f"it implements unknown hooks {', '.join(misspelt)}; hooks are {known}"
        raise contract_error(ref, msg)
    if not callers:
        msg = f"its module {ref.module!r} implements no hook of {known}, and has no initialize()"
        raise contract_error(ref, msg)
    return {caller.name for caller in callers}


def _typed(
    ref: PluginRef, hook: str, answer: object, kind: type[_Record], built: str | int | None
) -> Iterable[_Record]:
    if isinstance(answer, kind) or not isinstance(answer, Iterable):
        msg = f"{hook} must return a list of {kind.__name__}, not {type(answer).__name__}"
        raise contract_error(ref, msg)
    for item in answer:
        if not isinstance(item, kind):
            msg = f"{hook} must return {kind.__name__} records, not {type(item).__name__}"
            raise contract_error(ref, msg)
        _check_fields(ref, item)
        if built is None:  # else the manifest's was checked
            version = getattr(item, "api_version", None)
            api_version.check(ref, api_version.FIRST if version is None else version)
        yield item


def _check_fields(ref: PluginRef, record: Any) -> None:
    """Check what later steps rely on outside the guarded places, sorting for one."""
    for name, is_valid in _FIELDS.items():
        value = getattr(record, name, _UNSET)
        if value is not _UNSET and not is_valid(value):
            raise contract_error(ref, f"{type(record).__name__}.{name} cannot be {value!r}")


def _check_platforms(ref: PluginRef, plugin: Plugin) -> None:
    platforms = [client.platform for client in plugin.clients]
    platforms += [library.platform for library in plugin.libraries]
    twice = sorted({name for name in platforms if platforms.count(name) > 1})
    if twice:
        raise contract_error(ref, f"it has two client factories for platform {twice[0]!r}")
    if platforms and ref.platform not in platforms:
        msg = (
            f"its entry point is called {ref.platform!r}, but its client factory is for "
            f"{platforms[0]!r}; the two names must be the same"
        )
        raise contract_error(ref, msg)


def _load_error(ref: PluginRef, what: str, remedy: str, **data: Any) -> PluginLoadError:
    return PluginLoadError(f"{what} {remedy}", phase="load", remedy=remedy, **ref.facts(), **data)
