"""Importing a plugin's module and calling its hooks: the first guarded place of plugin code."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pluggy

from devrt import hookspecs
from devrt._support import log
from devrt._support.record import UnknownFieldError
from devrt.errors import ForkedError, PluginBusyError, PluginError, PluginLoadError
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading import api_version
from devrt.plugins.loading.faults import contract_error, usual_remedy
from devrt.plugins.loading.hooks import (
    LOADER_HOOK,
    TRAITS_HOOK,
    check_fields,
    check_platforms,
    collect,
)
from devrt.plugins.loading.plugin import Plugin
from devrt.plugins.loading.registrations import Registrations, collect_registrations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.plugins.loading.manifest import BackendManifest

__all__ = ["Initialized", "load_plugin"]

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
    instead, once, as ``initialized`` remembers, and what it registers meanwhile are its records.

    Raises `PluginLoadError` if the module cannot be imported or a hook fails, `PluginContractError`
    if a hook is misspelt or returns what the contract does not allow, and `ForkedError` if a thread
    that stayed in this process's parent was importing what the plugin imports.
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
            plugin = collect(manager, ref, module, built_against)
        _check_manifest(plugin, manifest, manager)
        log.debug("plugin %s was loaded: module %s", ref.name, ref.module)
        return plugin
    except (ForkedError, PluginError):
        raise
    except UnknownFieldError as error:
        raise api_version.unknown_field(ref, error, built_against) from error
    except (Exception, SystemExit) as error:  # plugin code: anything may come out of a hook
        if isinstance(error, TypeError) and (incomplete := _incomplete(ref)):
            raise contract_error(ref, f"of its classes, {incomplete}") from error
        has_hooks = bool(manager.get_hookcallers(module))
        what = "its hooks" if has_hooks else "the initialize() of its module"
        msg = (
            f"plugin {ref} failed while {what} for platform {ref.platform!r} "
            f"{'were' if has_hooks else 'was'} called: "
            f"{type(error).__name__}: {error}."
        )
        remedy = usual_remedy(ref)
        raise _load_error(ref, msg, _remedy(ref, built_against, remedy)) from error


def _remedy(ref: PluginRef, built_against: str | int | None, usual: str) -> str:
    """Return what to do about a failure; a plugin newer than devrt may well need another devrt."""
    return api_version.remedy(ref, "devrt-core") if api_version.is_newer(built_against) else usual


def _incomplete(ref: PluginRef) -> str:
    from devrt.contract.incomplete import incomplete_classes  # only where something is wrong

    return incomplete_classes(ref.module)


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
        from devrt.plugins.discovery.known import command_for_module  # only where it is missing

        again = "Reinstall" if is_own else "Install"
        remedy = f"{again} it with: {command_for_module(ref.distribution, missing)}"
        raise _load_error(ref, msg, remedy, missing=missing) from error
    except ForkedError:
        raise  # of this process, not of the plugin
    except (Exception, SystemExit) as error:  # plugin code: importing runs whatever it likes
        msg = (
            f"plugin {ref} for platform {ref.platform!r} cannot be imported: importing "
            f"{ref.module!r} raised {type(error).__name__}: {error}."
        )
        remedy = f"Reinstall or upgrade it, or uninstall {ref.distribution}."
        remedy = remedy if ref.has_distribution else usual_remedy(ref)
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
        check_fields(ref, made)
    check_platforms(ref, plugin)
    return plugin


def _check_manifest(
    plugin: Plugin, manifest: BackendManifest | None, manager: pluggy.PluginManager
) -> None:
    """Refuse a hook that no manifest tells of, so that it would not be found, and the reverse."""
    for key, hook in (("pjrt_loader", LOADER_HOOK), ("plugin_traits", TRAITS_HOOK)):
        is_promised = getattr(manifest, key, False)
        has_hook = bool(getattr(manager.hook, hook).get_hookimpls())
        if is_promised and not has_hook:
            what = f"its manifest says {key} = true, and it has no hook {hook}"
            raise contract_error(plugin.ref, what)
        if has_hook and not is_promised:
            what = f"it has the hook {hook} and no manifest with {key} = true"
            raise contract_error(plugin.ref, what)


def _load_error(ref: PluginRef, what: str, remedy: str, **data: Any) -> PluginLoadError:
    return PluginLoadError(f"{what} {remedy}", phase="load", remedy=remedy, **ref.facts(), **data)
