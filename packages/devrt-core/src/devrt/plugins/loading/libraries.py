"""PJRT libraries as backends: a plugin that can load such a library makes their clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from devrt._support.record import record, replaced
from devrt.errors import ConfigError, PluginLoadError, UnimplementedError
from devrt.plugins.discovery.refs import FROM_ENVIRONMENT, PluginRef
from devrt.plugins.discovery.registered import Registered, registered, set_environment
from devrt.records import (
    CACHE_OPTIONS,
    ClientContext,
    ClientFactory,
    ProbeResult,
    TopologyFactory,
    Unavailable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.contract import PjrtLoader
    from devrt.plugins.loading.plugin import Plugin

__all__ = [
    "REGISTERED_PRIORITY",
    "LibraryBackend",
    "OptionsSource",
    "as_registered",
    "library_backend",
]

REGISTERED_PRIORITY = 400
"""The priority of a library that a person named, in the environment or by a call."""

ADOPTED_PRIORITY = 100

_SHARED_OPTIONS = frozenset(spec.name for spec in CACHE_OPTIONS)
"""The client's own, not the library's: the loader finds them in the context."""

OptionsSource = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None

_GIVE_PATH = "Give the full path of the library, or install what brings it again."
_RELATIVE = "A relative path is looked for in the current folder only: it must be absolute. "


@record(frozen=True, slots=True, kw_only=True)
class LibraryBackend:
    """A backend that is a PJRT library: the path of its file, or a capsule named ``pjrt_c_api``.

    Options may be a callable, which is called when a client is made. With ``global_symbols`` it is
    opened so that every other library sees its symbols. ``registered`` is what the module that
    brings it was seen to register, whose variables are set before the library is used. The rest is
    as in `devrt.records.ClientFactory`.
    """

    platform: str
    library: Any
    options: OptionsSource = None
    priority: int = REGISTERED_PRIORITY
    aliases: tuple[str, ...] = ()
    fail_quietly: bool = False
    experimental: bool = False
    global_symbols: bool = False
    registered: Registered | None = None

    def client_factory(self, find: Callable[[], PjrtLoader | Unavailable]) -> ClientFactory:
        """Return the record that serves the platform through the loader that ``find`` returns."""

        def probe() -> ProbeResult:
            missing = self._missing()
            if missing is not None:
                return missing
            loader = find()
            return loader if isinstance(loader, Unavailable) else loader.check(self.library)

        def make(context: ClientContext) -> Any:
            own = {name: v for name, v in context.options.items() if name not in _SHARED_OPTIONS}
            options = {**self.all_options(), **own}
            return self._loader(find).make_client(self.library, self.platform, options, context)

        return ClientFactory(
            platform=self.platform,
            factory=make,
            probe=probe,
            aliases=self.aliases,
            priority=self.priority,
            fail_quietly=self.fail_quietly,
            experimental=self.experimental,
            options=CACHE_OPTIONS,
        )

    def topology_factory(self, find: Callable[[], PjrtLoader | Unavailable]) -> TopologyFactory:
        """Return the record that describes the platform through the same loader."""

        def make(topology_name: str = "", **options: Any) -> Any:
            loader = self._loader(find)
            return loader.make_topology(self.library, self.platform, topology_name, options)

        return TopologyFactory(platform=self.platform, factory=make)

    def _missing(self) -> Unavailable | None:
        if isinstance(self.library, str) and not os.path.isfile(self.library):
            what = "is no file" if os.path.exists(self.library) else "is not there"
            what = "is a directory" if os.path.isdir(self.library) else what
            return Unavailable(
                f"its PJRT library {self.library!r} {what}",
                _GIVE_PATH if os.path.isabs(self.library) else _RELATIVE + _GIVE_PATH,
            )
        return None

    def _loader(self, find: Callable[[], PjrtLoader | Unavailable]) -> PjrtLoader:
        loader = self._missing() or find()
        if isinstance(loader, Unavailable):
            msg = (
                f"the PJRT library of platform {self.platform!r} cannot be used: "
                f"{loader.reason}. {loader.remedy}"
            )
            raise UnimplementedError(
                msg, operation="load", platform=self.platform, remedy=loader.remedy
            )
        set_environment(self.registered)
        if self.global_symbols:
            loader.open_global(self.platform, self.library)
        return loader

    def all_options(self) -> dict[str, Any]:
        """Return the client's options, checked; calls what gives them."""
        from devrt.plugins.discovery.pjrt_env import (
            check_options,  # only where such a client is made
        )

        options = self.options() if callable(self.options) else self.options
        try:
            return check_options({} if options is None else options)
        except ConfigError as error:
            msg = f"the options of platform {self.platform!r}: {error.message}"
            raise ConfigError(msg, platform=self.platform, **error.data) from error


def library_backend(ref: PluginRef) -> LibraryBackend:
    """Return the backend of a plugin that is a library.

    Raises `PluginLoadError` if its configuration file is not valid any more.
    """
    options: Mapping[str, Any] = {}
    known = registered(ref)
    if ref.config:
        from devrt.plugins.discovery.pjrt_env import read_config

        try:
            options = read_config(ref.config).options
        except ConfigError as error:
            raise PluginLoadError(error.message, phase="load", **ref.facts()) from error
    elif known is not None:
        options = known.options
    priority = REGISTERED_PRIORITY if ref.source == FROM_ENVIRONMENT else ADOPTED_PRIORITY
    if known is not None and known.priority is not None:
        priority = known.priority
    return LibraryBackend(
        platform=ref.platform,
        library=ref.library,
        options=options or None,
        priority=priority,
        experimental=ref.experimental,
        global_symbols=ref.global_symbols,
        registered=known,
    )


def as_registered(plugin: Plugin) -> PluginRef:
    """Return the reference to a library that a call registered, with its options, for a child."""
    (library,) = plugin.libraries
    try:
        known = Registered(priority=library.priority, options=library.all_options())
    except Exception:  # noqa: BLE001  a user's callable: it fails again where the client is made
        return plugin.ref
    return replaced(plugin.ref, registered=known.text())
