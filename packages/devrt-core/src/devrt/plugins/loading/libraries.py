"""PJRT libraries as backends: a plugin that can load such a library makes their clients."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from devrt._support.record import record, replaced
from devrt.errors import BackendUnavailableError, ConfigError, PluginLoadError, UnimplementedError
from devrt.plugins.discovery.refs import FROM_ENVIRONMENT, PluginRef
from devrt.plugins.discovery.registered import Registered, registered, set_environment
from devrt.records import (
    CACHE_OPTIONS,
    Available,
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

_OF_RECORD = ("platform", "library", "priority", "aliases", "fail_quietly", "experimental")

OptionsSource = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None

_GIVE_PATH = "Give the full path of the library, or install what brings it again."
_RELATIVE = "A relative path is looked for in the current folder only: it must be absolute. "


@record(frozen=True, slots=True, kw_only=True)
class LibraryBackend:
    """A backend that is a PJRT library: its path, what returns that, or a ``pjrt_c_api`` capsule.

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
    record: ClientFactory | None = None

    @classmethod
    def of(cls, record: ClientFactory, is_global: bool) -> LibraryBackend:
        """Return the backend of a record that names a library in place of a factory."""
        shared = {name: getattr(record, name) for name in _OF_RECORD}
        return cls(global_symbols=is_global, record=record, **shared)

    def client_factory(self, find: Callable[[], PjrtLoader | Unavailable]) -> ClientFactory:
        """Return the record that serves the platform through the loader that ``find`` returns."""

        def probe() -> ProbeResult:
            own = Available() if self.record is None else self.record.probe()
            if not isinstance(own, Available):
                return own
            library = self._located()
            loader = library if isinstance(library, Unavailable) else find()
            answer = loader if isinstance(loader, Unavailable) else loader.check(library)
            return own if own.detail and isinstance(answer, Available) else answer

        def make(context: ClientContext) -> Any:
            library, loader = self._opened(find)
            own = {name: v for name, v in context.options.items() if name not in _SHARED_OPTIONS}
            options = {**self._job_options(context), **self._create_options(own)}
            return loader.make_client(library, self.platform, options, context)

        record = self.record
        if record is not None:
            listed = {spec.name for spec in record.options}
            cache = (spec for spec in CACHE_OPTIONS if spec.name not in listed)
            options = (*record.options, *cache)
            return replaced(record, library=None, factory=make, probe=probe, options=options)
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
            library, loader = self._opened(find)
            return loader.make_topology(library, self.platform, topology_name, options)

        return TopologyFactory(platform=self.platform, factory=make)

    def _located(self) -> Any:
        """Return the library, or why it cannot be used."""
        library = self.library() if callable(self.library) else self.library
        if callable(self.library) and not isinstance(library, str | os.PathLike | Unavailable):
            kind = type(library).__name__
            raise TypeError(f"its library returned {kind}, not a path or Unavailable")
        if isinstance(library, os.PathLike):
            library = os.fspath(library)
        if isinstance(library, str) and not os.path.isfile(library):
            what = "is no file" if os.path.exists(library) else "is not there"
            what = "is a directory" if os.path.isdir(library) else what
            return Unavailable(
                f"its PJRT library {library!r} {what}",
                _GIVE_PATH if os.path.isabs(library) else _RELATIVE + _GIVE_PATH,
            )
        return library

    def _opened(self, find: Callable[[], PjrtLoader | Unavailable]) -> tuple[Any, PjrtLoader]:
        """Return the library and the loader, once what both need is done."""
        library = self._located()
        loader = library if isinstance(library, Unavailable) else find()
        if isinstance(loader, Unavailable):
            msg = (
                f"the PJRT library of platform {self.platform!r} cannot be used: "
                f"{loader.reason}. {loader.remedy}"
            )
            is_own = self.record is not None and loader is library
            kind = BackendUnavailableError if is_own else UnimplementedError
            raise kind(msg, operation="load", platform=self.platform, remedy=loader.remedy)
        set_environment(self.registered)
        if self.global_symbols:
            loader.open_global(self.platform, library)
        return library, loader

    def _create_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the library's client is created with."""
        if self.record is None:
            return {**self.all_options(), **given}
        declared = {spec.name for spec in self.record.options}
        made = self.record.create_options({n: v for n, v in given.items() if n in declared})
        # What a caller gives beside them is the library's, or the loader's, by its own name.
        return {
            **_checked(self.platform, made),
            **{n: given[n] for n in given if n not in declared},
        }

    def _job_options(self, context: ClientContext) -> dict[str, Any]:
        """Return what tells the library of the job, as JAX does; records say it themselves."""
        return {} if self.record is not None or context.job is None else context.job.options()

    def all_options(self) -> dict[str, Any]:
        """Return the client's options, checked; calls what gives them."""
        return _checked(self.platform, self.options() if callable(self.options) else self.options)


def _checked(platform: str, options: Mapping[str, Any] | None) -> dict[str, Any]:
    from devrt.plugins.discovery.pjrt_env import check_options  # only where a client is made

    try:
        return check_options({} if options is None else options)
    except ConfigError as error:
        msg = f"the options of platform {platform!r}: {error.message}"
        raise ConfigError(msg, platform=platform, **error.data) from error


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
