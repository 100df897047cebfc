"""The object that owns what is alive: plugins, clients, configuration."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from devrt._config.layers import Config
from devrt._support import caches
from devrt._support.warn import warn
from devrt.contract import Client, Device, Job
from devrt.errors import (
    BackendInitializationError,
    ConfigError,
    DevrtError,
    DevrtWarning,
)
from devrt.plugins import (
    Broken,
    Callbacks,
    Candidate,
    Decision,
    Plugin,
    PluginRef,
    PluginRegistry,
    Policy,
    discover_plugins,
    select,
)
from devrt.plugins.judging import asks_for_simulated
from devrt.plugins.loading.option_clashes import clash_error, options_of
from devrt.probing.preflight import Preflight
from devrt.runtime.choice import (
    Find,
    checked_request,
    configured_names,
    configured_policy,
    decide,
    requested_policy,
)
from devrt.runtime.clients import ClientStore, without_callers
from devrt.runtime.default_device import choose_device
from devrt.runtime.notices import Notices

__all__ = ["Runtime"]

_PROBE_SECONDS = 60.0


class Runtime:
    """Plugins, clients and configuration, from the first question to `close`.

    Parameters
    ----------
    config
        Options; read from files and the environment when omitted.
    environ
        The environment variables that they are read from; the process's when omitted.
    discover
        Returns the plugins there are; those installed and named in the environment when omitted.

    Notes
    -----
    A platform's client is made at most once, the first time that it is requested. A failure is
    kept as well: the same question gets the same answer until `clear_backends`.
    """

    def __init__(
        self,
        *,
        config: Config | None = None,
        environ: Mapping[str, str] | None = None,
        discover: Callable[[], Iterable[PluginRef]] = discover_plugins,
    ) -> None:
        self.config = Config(environ) if config is None else config
        preflight = Preflight(self._isolation)
        callbacks = Callbacks(
            forbidden=lambda: configured_names(self.config, "forbid_platforms").platforms,
            run_entries=preflight.entries,
            preflight=preflight.load,
            on_load=self._declare_options,
            patience=self._patience,
            is_set=self.config.is_set,
        )
        self.plugins = PluginRegistry(discover, callbacks)
        self._clients = ClientStore(self.config, preflight.client)
        self._notices = Notices(self.plugins, self.config, self._clients.warn_once)
        self._default: tuple[int, Client] | None = None
        self._cached_default: tuple[int, Client, Device] | None = None
        self.config.when_unknown(
            self.load_options, self.plugins.undeclared_platforms, self._why_absent
        )

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- choosing -----------------------------------------------------------------------------

    def policy(self) -> Policy:
        """Return what the configuration allows, requires, prefers and forbids."""
        return configured_policy(self.config)

    def decide(self, platform: str | None = None) -> Decision:
        """Choose a backend without making its client, and say why.

        Parameters
        ----------
        platform
            A platform, an alias or ``platform@distribution``; None asks for the default.
        """
        requested = None if platform is None else requested_policy(platform)
        return self._decide(requested, self._candidates)

    def decide_among(
        self, candidates: Iterable[Candidate], requested: Policy | None = None
    ) -> Decision:
        """Decide as `decide` does, among candidates that were judged elsewhere.

        Parameters
        ----------
        candidates
            Every backend there is.
        requested
            The platforms that a call names; None asks for the default.
        """
        given = tuple(candidates)
        return self._decide(requested, lambda names: given)

    def failures(self) -> dict[PluginRef, DevrtError]:
        """Return why clients could not be made in this process, as far as that is remembered."""
        return self._clients.failures()

    def _decide(self, requested: Policy | None, find: Find) -> Decision:
        return decide(self.config, requested, find, self.plugins.problems)

    def _candidates(self, names: tuple[str, ...]) -> tuple[Candidate, ...]:
        return tuple(self._with_failure(c) for c in self.plugins.candidates(names))

    def _with_failure(self, candidate: Candidate) -> Candidate:
        error = self._clients.failure(candidate.ref)
        if error is None:
            return candidate
        broken = Broken("client", error.message, str(getattr(error, "remedy", "")))
        return Candidate(
            candidate.ref, broken, candidate.priority, candidate.aliases, candidate.experimental
        )

    # -- clients ------------------------------------------------------------------------------

    def get_backend(self, platform: str | Client | None = None) -> Client:
        """Return the client of a platform, made at the first call.

        Parameters
        ----------
        platform
            A platform, an alias, ``platform@distribution``, or a client, which is returned as it
            is. None asks for the default: the first that the configuration names, else the
            platform with the highest priority that is available.

        Raises
        ------
        SelectionError
            If no backend can be chosen. Another platform than the named one is never taken.
        BackendInitializationError
            If the platform's client could not be made.
        """
        if platform is None:
            return self._default_client()
        if isinstance(platform, str):
            # Without regard to clients that failed: a second call must not choose differently.
            self._clients.check_process()
            decision = self._decide(requested_policy(platform), self.plugins.candidates)
            return self._client(self._chosen(platform, decision))
        given: object = platform  # callers are not bound by the annotation
        if isinstance(given, Client):
            return given
        from devrt.runtime import failures as _failures  # only where something failed

        raise _failures.invalid_backend(given)

    def _default_client(self) -> Client:
        self._clients.check_process()  # before any lock that a thread of the parent may hold
        known, config = self._default, self.config
        if known is not None and known[0] == config.generation and not config.overridden:
            return known[1] if not known[1].is_closed else self._choose_default()
        generation = config.generation
        client = self._choose_default()
        if not config.overridden:
            self._default = (generation, client)
        return client

    def _choose_default(self) -> Client:
        named = bool(
            self.policy().platforms or configured_names(self.config, "platform_name").platforms
        )
        find = self.plugins.candidates if named else self._candidates
        while True:
            decision = self._decide(None, find)
            self._notices.tell(decision, is_default=True)
            if decision.chosen is None:
                from devrt.runtime import failures as _failures  # only where something failed

                error = _failures.no_default(
                    decision, self.plugins.refs(), self.plugins.load_errors()
                )
                raise _failures.noted(error, _failures.notes(self.plugins, decision))
            ref = decision.chosen.ref
            try:
                return self._client(ref)
            except BackendInitializationError as failure:
                if named:
                    from devrt.runtime import failures as _failures  # only where something failed

                    raise _failures.requested_failed(decision, failure) from failure.__cause__
                self._notices.fell_back(ref, failure)

    def _client(self, ref: PluginRef) -> Client:
        client = self._clients.open(ref)
        return self._clients.get(self.plugins.resolve(ref)) if client is None else client

    def make_client(
        self, platform: str, options: Mapping[str, Any] | None = None, installed: bool = False
    ) -> Client:
        """Make another client of a platform, which the caller owns and closes.

        Parameters
        ----------
        platform
            A platform, an alias or ``platform@distribution``; the policy does not restrict it.
        options
            Values that replace configured ones.
        installed
            Whether other installed plugins come before factories that calls registered or that
            are under way: one of these may be the caller.

        Raises
        ------
        SelectionError, BackendInitializationError, PluginBusyError
            As `get_backend`; the last one too if the factory that would make it is the caller.
        InvalidTypeError
            If the platform is no text, or the options are no mapping from names.
        """
        self._clients.check_process()
        given = checked_request(platform, options)
        requested = requested_policy(platform)
        ref = self._simulated(requested.platforms, given)
        if ref is None:
            found = self.plugins.candidates(requested.platforms, regardless=True)
            found = without_callers(found) if installed else found
            ref = self._chosen(platform, select(found, requested))
        return self._clients.make(self.plugins.resolve(ref), given)

    def _simulated(self, names: Sequence[str], given: Mapping[str, Any]) -> PluginRef | None:
        """Return the first plugin that simulates its devices as a call requests."""
        for ref in self.plugins.refs_for(names) if given else ():
            if not asks_for_simulated(given, ref.platform):
                continue
            factory = self.plugins.load(ref).client_factory()
            if factory is not None and factory.simulates:
                return ref
        return None

    def join(self, job: Job | None) -> None:
        """Give the clients that are made from now on the devices of a job's processes.

        None gives them those of this process alone.
        """
        self._clients.job = job

    @property
    def job(self) -> Job | None:
        """The job of several processes that clients made from now on are part of."""
        return self._clients.job

    def register(self, plugin: Plugin) -> None:
        """Add a plugin by a call; it replaces an earlier one of the same name, failure included."""
        self.plugins.add(plugin)
        self._clients.forget_failure(plugin.ref)

    def backends(self) -> dict[str, Client]:
        """Return the clients that are alive, by platform, the default backend's among them."""
        self._clients.check_process()
        with contextlib.suppress(DevrtError):
            self._default_client()
        return self.live_clients()

    def live_clients(self) -> dict[str, Client]:
        """Return the clients made so far, by platform, without making any.

        Where two distributions serve one platform and both have a client, the first by name has
        the platform's key and the other its own, ``platform@distribution``.
        """
        found: dict[str, Client] = {}
        for ref, client in self._clients.live().items():
            found[ref.name if ref.platform in found else ref.platform] = client
        return found

    def all_clients(self) -> list[Client]:
        """Return every open client of this runtime, those of `make_client` too."""
        return [*self._clients.live().values(), *self._clients.named()]

    def live_plugins(self) -> tuple[PluginRef, ...]:
        """Return the plugins whose clients are alive, ordered by name."""
        return tuple(self._clients.live())

    def default_device(self) -> Device:
        """Return the device for arrays placed without naming one: the configured, else the first.

        Raises
        ------
        ConfigError
            If ``default_device`` is configured to something that is no device or platform.
        """
        self._clients.check_process()
        known, config = self._cached_default, self.config
        fresh = known is not None and known[0] == config.generation and not config.overridden
        if known is not None and fresh and not known[1].is_closed:
            return known[2]
        generation = config.generation
        device = choose_device(self, config.read("default_device"))
        if not config.overridden:
            self._cached_default = (generation, device.client, device)
        return device

    # -- the end ------------------------------------------------------------------------------

    def clear_backends(self) -> None:
        """Close every client and forget every failure; the next use discovers and probes anew.

        Arrays on the closed clients are deleted; using them raises.
        """
        self._default = None
        self._cached_default = None
        self._notices.forget()
        caches.clear_all()
        problems = self._clients.close_all()
        self.config.thaw()
        self.plugins.refresh()
        for problem in problems:  # after all were closed: a warning may raise
            warn(problem, DevrtWarning)

    def close(self) -> None:
        """Give back everything the runtime holds, device memory included. Idempotent."""
        self.clear_backends()

    # -- helpers ------------------------------------------------------------------------------

    def _chosen(self, platform: str, decision: Decision) -> PluginRef:
        if decision.chosen is None or self._clients.open(decision.chosen.ref) is None:
            self._notices.tell(decision)
        if decision.chosen is None:
            unloaded = self.plugins.load_errors()
            from devrt.runtime import failures as _failures  # only where something failed

            error = _failures.not_served(platform, decision, self.plugins.refs(), unloaded)
            raise _failures.noted(error, _failures.notes(self.plugins, decision))
        return decision.chosen.ref

    def _isolation(self) -> float | None:
        if self.config.read("probe") != "isolated":
            return None
        return _PROBE_SECONDS if (timeout := self._patience()) is None else timeout

    def _patience(self) -> float | None:
        timeout = self.config.read("init_timeout")
        return None if timeout is None else float(timeout)

    def load_options(self) -> None:
        """Load every plugin that may be used; ``config`` knows the options of those that work."""
        for ref in self.plugins.refs_for(self.policy().platforms):
            if not self.plugins.is_forbidden(ref):
                with contextlib.suppress(DevrtError):
                    self.plugins.load(ref)

    def _declare_options(self, plugin: Plugin) -> None:
        """Make a plugin's options known; `PluginContractError` if one is there, and another."""
        try:
            self.config.define(*options_of(plugin))
        except ConfigError as error:
            known = self.config.spec(error.data["option"])
            raise clash_error(plugin, known, self.plugins.loaded()) from error

    def _why_absent(self, option: str) -> str:
        """Return whose option a name is and why that is not loaded; empty if it is nobody's."""
        from devrt.runtime import failures  # only where something failed

        try:
            policy = self.policy()
        except ConfigError:
            policy = Policy()  # another mistake, which is an error of its own
        return failures.absent_option(option, self.plugins.refs(), policy, self.plugins)
