"""Backends that are registered by calls, on the default runtime or for the plugin that loads."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from devrt.contract import Client
from devrt.errors import InvalidArgumentError
from devrt.plugins import (
    FROM_ENVIRONMENT,
    FROM_FACTORY,
    REGISTERED_PRIORITY,
    LibraryBackend,
    OptionsSource,
    Plugin,
    PluginRef,
    current_registrations,
    environment_plugins,
)
from devrt.records import ClientContext, ClientFactory, TopologyFactory
from devrt.runtime.current import default_runtime
from devrt.runtime.runtime import Runtime

__all__ = [
    "discover_pjrt_plugins",
    "register_backend_factory",
    "register_pjrt_plugin_factories_from_env",
    "register_plugin",
]

REGISTERED = "(code)"


def register_backend_factory(
    name: str,
    factory: Callable[[], Client | None],
    *,
    priority: int = 0,
    fail_quietly: bool = True,
    experimental: bool = False,
    make_topology: Callable[..., Any] | None = None,
) -> None:
    """Register a backend by a call instead of an installed plugin.

    Where an installed plugin serves the platform too, both are kept, ordered by priority and name;
    this one is ``name@(code)``. A later call with the same name replaces an earlier one. Called
    from a plugin's ``initialize()``, the backend is that plugin's.

    Parameters
    ----------
    name
        The platform that it serves.
    factory
        Makes the client; called without arguments at the first use.
    priority, fail_quietly, experimental
        As in `devrt.records.ClientFactory`.
    make_topology
        Makes a topology of the platform, called with its name and options.

    Raises
    ------
    InvalidArgumentError
        If the name is none, the priority no integer, or the platform's client already made.
    """
    name = _checked_name(name)
    _check_priority(name, priority)

    def call(_: ClientContext) -> Any:
        return factory()

    client = ClientFactory(
        platform=name,
        factory=call,
        priority=priority,
        fail_quietly=fail_quietly,
        experimental=experimental,
    )
    topologies = (
        () if make_topology is None else (TopologyFactory(platform=name, factory=make_topology),)
    )
    collecting = current_registrations()
    if collecting is not None:
        collecting.clients.append(client)
        collecting.topologies.extend(topologies)
        return
    ref = PluginRef(name, REGISTERED, source=FROM_FACTORY)
    _register(Plugin(ref, (client,), topologies))


def register_plugin(
    plugin_name: str,
    priority: int = REGISTERED_PRIORITY,
    library_path: str | os.PathLike[str] | None = None,
    options: OptionsSource = None,
    c_api: Any = None,
    *,
    global_symbols: bool = False,
    experimental: bool = False,
) -> Any:
    """Register a PJRT library as a backend.

    Nothing is opened or looked at yet: the path is checked, and the options are requested, when
    the platform is used. Called from a plugin's ``initialize()``, the backend is that plugin's.

    Parameters
    ----------
    plugin_name
        The platform that it serves.
    priority
        As in `devrt.records.ClientFactory`.
    library_path
        Full path of the library.
    options
        What the client is created with: a mapping from names to strings, integers, lists of
        integers, numbers or booleans, or a callable that returns one when the client is made.
    c_api
        In place of a path: a capsule named ``pjrt_c_api``.
    global_symbols
        Whether the library's symbols are visible to every other library of the process
        (``RTLD_GLOBAL``), as some plugins need for libraries that they open themselves. Symbols of
        different plugins can clash then, so without it they are not.
    experimental
        As in `devrt.records.ClientFactory`.

    Returns
    -------
    object
        ``c_api``; None for a path, whose library is not loaded yet.

    Raises
    ------
    InvalidArgumentError
        If the name is none, the priority no integer, not just one of ``library_path`` and
        ``c_api`` given, ``global_symbols`` given with a ``c_api``, whose library is open already,
        or the platform's client already made.
    """
    name = _checked_name(plugin_name)
    _check_priority(name, priority)
    if bool(library_path) == (c_api is not None):
        which = "both" if library_path else "none"
        msg = (
            f"PJRT plugin {name!r} needs either a library_path or a c_api; {which} of them "
            "was given."
        )
        raise InvalidArgumentError(msg, platform=name)
    if global_symbols and c_api is not None:
        msg = (
            f"PJRT plugin {name!r}: global_symbols is for a library_path; a c_api is of a library "
            "that is open already, with the symbols that its first user gave it. Leave it out."
        )
        raise InvalidArgumentError(msg, platform=name)
    path = os.fspath(library_path) if library_path else ""
    library = LibraryBackend(
        platform=name,
        library=path or c_api,
        options=options,
        priority=priority,
        experimental=bool(experimental),
        global_symbols=bool(global_symbols),
    )
    collecting = current_registrations()
    if collecting is not None:
        collecting.libraries.append(library)
    else:
        ref = PluginRef(
            name,
            REGISTERED,
            source="register_plugin",
            library=path,
            global_symbols=library.global_symbols,
            experimental=library.experimental,
        )
        _register(Plugin(ref, libraries=(library,)))
    return c_api


def discover_pjrt_plugins() -> None:
    """Find the installed plugins now instead of at the first question. Nothing is imported."""
    default_runtime().plugins.refs()


def register_pjrt_plugin_factories_from_env() -> None:
    """Read ``PJRT_NAMES_AND_LIBRARY_PATHS`` anew; what it named before is forgotten.

    An entry that cannot be used is kept as a broken candidate of the platform that it names.

    Raises
    ------
    InvalidArgumentError
        If a platform that it names has a client already, which another library was made with.
    """
    runtime = default_runtime()
    known = set(runtime.plugins.refs())
    found = environment_plugins()
    for ref in found:
        if ref not in known:
            _check_not_in_use(runtime, ref.platform)
    runtime.plugins.replace_source(FROM_ENVIRONMENT, found)


def _register(plugin: Plugin) -> None:
    runtime = default_runtime()
    _check_not_in_use(runtime, plugin.ref.platform)
    runtime.register(plugin)


def _check_not_in_use(runtime: Runtime, platform: str) -> None:
    users = [ref for ref in runtime.live_plugins() if ref.platform == platform]
    if users:
        msg = (
            f"backend {platform!r} cannot be registered: a client of that platform is in use, "
            f"initialised by {', '.join(map(str, users))}. Register it earlier, or call "
            "devrt.clear_backends() first."
        )
        raise InvalidArgumentError(msg, platform=platform)


def _checked_name(name: str) -> str:
    given: object = name  # callers are not bound by the annotation
    if not isinstance(given, str) or not given.strip() or set(given) & set(",@ \t\n"):
        msg = (
            f"a platform cannot be called {name!r}: its name is a string without blanks, commas "
            "and '@'."
        )
        raise InvalidArgumentError(msg, platform=name)
    return given.lower()


def _check_priority(name: str, priority: int) -> None:
    given: object = priority
    if not isinstance(given, int):
        msg = f"the priority of platform {name!r} is an integer, not {priority!r}."
        raise InvalidArgumentError(msg, platform=name)
