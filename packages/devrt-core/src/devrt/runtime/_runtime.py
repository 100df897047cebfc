"""The object that owns what is alive: plugins, clients, configuration."""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from devrt._config import Config
from devrt._warn import warn
from devrt.contract import Client, Device
from devrt.errors import (
    BackendInitializationError,
    ConfigError,
    DevrtError,
    DevrtWarning,
    InvalidArgumentError,
    PluginContractError,
)
from devrt.plugins import (
    Broken,
    Candidate,
    Decision,
    Plugin,
    PluginRef,
    PluginRegistry,
    Policy,
    installed_plugins,
    parse_platforms,
    select,
)
from devrt.records import ClientContext, ClientFactory
from devrt.runtime import _failures

__all__ = ["Runtime"]


class Runtime:
    """Plugins, clients and configuration, from the first question to `close`.

    Parameters
    ----------
    config
        Options; read from the process's environment when omitted.
    discover
        Returns the plugins there are; those of the installed distributions when omitted.

    Notes
    -----
    A platform's client is made at most once, the first time that it is asked for. A failure is
    kept as well: the same question gets the same answer until `clear_backends`.
    """

    def __init__(
        self,
        *,
        config: Config | None = None,
        discover: Callable[[], Iterable[PluginRef]] = installed_plugins,
    ) -> None:
        self.config = Config() if config is None else config
        self.plugins = PluginRegistry(discover, self._declare_options)
        self._lock = threading.RLock()
        self._locks: dict[PluginRef, threading.RLock] = {}
        self._clients: dict[PluginRef, Client] = {}
        self._failed: dict[PluginRef, DevrtError] = {}
        self._warned: set[str] = set()
        self._default: tuple[int, Client] | None = None
        self.config.when_unknown(self._load_allowed)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    # -- choosing -----------------------------------------------------------------------------

    def policy(self) -> Policy:
        """Return what the configuration asks for."""
        for option in ("platforms", "platform_name"):
            setting = self.config.setting(option)
            if setting.value:
                source = setting.detail or f"config.{option}"
                return parse_platforms(str(setting.value), source)
        return Policy()

    def decide(self, platform: str | None = None) -> Decision:
        """Choose a backend without making its client, and say why.

        Parameters
        ----------
        platform
            A platform, an alias or ``platform@distribution``; None asks for the default.
        """
        if platform is not None:
            return self._decide_asked(_asked(platform), self._candidates)
        policy = self.policy()
        return select(self._candidates(policy.platforms), policy)

    def _decide_asked(
        self, asked: Policy, find: Callable[[tuple[str, ...]], tuple[Candidate, ...]]
    ) -> Decision:
        policy = self.policy()
        candidates = find(asked.platforms)
        if not policy.platforms:
            return select(candidates, asked)
        allowed = [c for c in candidates if any(c.answers_to(n) for n in policy.platforms)]
        if allowed:
            return select(allowed, asked)
        if candidates:
            raise _failures.excluded(asked.platforms[0], candidates, policy)
        return select((), asked)

    def _candidates(self, names: tuple[str, ...]) -> tuple[Candidate, ...]:
        found = self.plugins.candidates(names)
        return tuple(self._with_failure(candidate) for candidate in found)

    def _with_failure(self, candidate: Candidate) -> Candidate:
        error = self._failed.get(candidate.ref)
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
            decision = self._decide_asked(_asked(platform), self.plugins.candidates)
            return self._client(self._chosen(platform, decision))
        given: object = platform  # callers are not bound by the annotation
        if isinstance(given, Client):
            return given
        raise _failures.invalid_backend(given)

    def _default_client(self) -> Client:
        known = self._default
        if known is not None and known[0] == self.config.generation and not self.config.overridden:
            return known[1]
        generation = self.config.generation
        client = self._choose_default()
        if not self.config.overridden:
            self._default = (generation, client)
        return client

    def _choose_default(self) -> Client:
        policy = self.policy()
        find = self.plugins.candidates if policy.platforms else self._candidates
        while True:
            decision = select(find(policy.platforms), policy)
            if decision.chosen is None:
                raise _failures.no_default(decision, self._known(), self.plugins.load_errors())
            ref = decision.chosen.ref
            try:
                return self._client(ref)
            except BackendInitializationError as error:
                if policy.platforms:
                    raise
                self._fell_back(ref, error)

    def _fell_back(self, ref: PluginRef, error: DevrtError) -> None:
        if not self.plugins.factory(ref).fail_quietly:
            self._warn_once(
                f"{error.message} Another platform is the default meanwhile; "
                f"name {ref.platform!r} in DEVRT_PLATFORMS to make this an error."
            )

    def _client(self, ref: PluginRef) -> Client:
        client = self._clients.get(ref)
        if client is not None:
            return client
        with self._lock:
            lock = self._locks.setdefault(ref, threading.RLock())
        with lock:
            client = self._clients.get(ref)
            if client is None:
                client = self._make_client(ref)
            return client

    def _make_client(self, ref: PluginRef) -> Client:
        failed = self._failed.get(ref)
        if failed is not None:
            raise failed.fresh()
        factory = self.plugins.factory(ref)
        if factory.experimental:
            self._warn_once(
                f"platform {ref.platform!r} ({ref}) is experimental: its author says that results "
                "may be incomplete or wrong."
            )
        try:
            client = self._call_factory(ref, factory, {})
        except BackendInitializationError as error:  # any other is a value that the user can mend
            self._failed[ref] = error.fresh()
            raise
        names = tuple(spec.name for spec in factory.options)
        self.config.freeze(names, f"the {ref.platform} client of {ref}")
        with self._lock:
            self._clients[ref] = client
        return client

    def make_client(self, platform: str, options: Mapping[str, Any] | None = None) -> Client:
        """Make another client of a platform, which the caller owns and closes.

        Parameters
        ----------
        platform
            A platform, an alias or ``platform@distribution``; the policy does not restrict it.
        options
            Values that take the place of configured ones.

        Raises
        ------
        SelectionError, BackendInitializationError
            As `get_backend`.
        """
        asked = _asked(platform)
        ref = self._chosen(platform, select(self.plugins.candidates(asked.platforms), asked))
        return self._call_factory(ref, self.plugins.factory(ref), options or {})

    def _call_factory(
        self, ref: PluginRef, factory: ClientFactory, options: Mapping[str, Any]
    ) -> Client:
        values = {spec.name: self.config.read(spec.name) for spec in factory.options}
        context = ClientContext(
            options=types.MappingProxyType({**values, **options}),
            memory_kinds=self.plugins.memory_kinds(ref.platform),
        )
        try:
            client = factory.factory(context)
            problem = _problem(client)
        except InvalidArgumentError:
            raise  # a value that the caller passed or configured, not a failure of the plugin
        except (Exception, SystemExit) as error:  # plugin code: a driver may fail in any way
            raise _failures.initialization(ref, error) from error
        if problem:
            _close(ref, client)
            raise _failures.unusable(ref, problem)
        return client

    def register(self, plugin: Plugin) -> None:
        """Add a plugin by a call; it replaces an earlier one of the same name, failure included."""
        self.plugins.add(plugin)
        self._failed.pop(plugin.ref, None)

    def backends(self) -> dict[str, Client]:
        """Return the clients that are alive, by platform, the default backend's among them."""
        with contextlib.suppress(DevrtError):
            self._default_client()
        return self.live_clients()

    def live_clients(self) -> dict[str, Client]:
        """Return the clients made so far, by platform, without making any."""
        with self._lock:
            return {ref.platform: client for ref, client in sorted(self._clients.items())}

    def default_device(self) -> Device:
        """Return the device for arrays placed without naming one: the configured, else the first.

        Raises
        ------
        ConfigError
            If ``default_device`` is configured to something that is no device or platform.
        """
        configured = self.config.read("default_device")
        if configured is None:
            return self._default_client().local_devices()[0]
        if isinstance(configured, Device):
            return configured
        if isinstance(configured, str):
            return self.get_backend(configured).local_devices()[0]
        msg = f"option 'default_device' takes a device or a platform's name, not {configured!r}."
        raise ConfigError(msg, option="default_device", value=configured)

    # -- the end ------------------------------------------------------------------------------

    def clear_backends(self) -> None:
        """Close every client and forget every failure; the next use discovers and probes anew.

        Arrays on the closed clients are deleted; using them raises.
        """
        with self._lock:
            clients, self._clients = self._clients, {}
            self._failed.clear()
            self._default = None
            self.config.thaw()
            self.plugins.refresh()
        problems = [_close(ref, client) for ref, client in sorted(clients.items())]
        for problem in filter(None, problems):  # after all were closed: a warning may raise
            warn(problem, DevrtWarning)

    def close(self) -> None:
        """Give back everything the runtime holds, device memory included. Idempotent."""
        self.clear_backends()

    # -- helpers ------------------------------------------------------------------------------

    def _chosen(self, platform: str, decision: Decision) -> PluginRef:
        if decision.chosen is None:
            unloaded = self.plugins.load_errors()
            raise _failures.not_served(platform, decision, self._known(), unloaded)
        return decision.chosen.ref

    def _known(self) -> tuple[PluginRef, ...]:
        return self.plugins.refs()

    def _declare_options(self, plugin: Plugin) -> None:
        for factory in plugin.clients:
            for spec in factory.options:
                try:
                    self.config.define(spec)
                except ConfigError as error:
                    msg = f"plugin {plugin.ref} breaks the plugin contract: {error.message}"
                    raise PluginContractError(
                        msg,
                        phase="contract",
                        plugin=plugin.ref.distribution,
                        version=plugin.ref.version,
                        platform=plugin.ref.platform,
                    ) from error

    def _load_allowed(self) -> None:
        for ref in self.plugins.refs_for(self.policy().platforms):
            with contextlib.suppress(DevrtError):  # a broken plugin declares no option
                self.plugins.load(ref)

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warn(message, DevrtWarning)


def _asked(platform: str) -> Policy:
    asked = parse_platforms(platform, f"the argument {platform!r}")
    if not asked.platforms:
        raise _failures.nameless()
    return asked


def _close(ref: PluginRef, client: Client) -> str:
    try:
        client.close()
    except Exception as error:  # noqa: BLE001  plugin code: one bad close must not keep others open
        return f"closing the {ref.platform} client of {ref} failed: {error}"
    return ""


def _problem(client: Any) -> str:
    if client is None:
        return "its factory returned None"
    if not isinstance(client, Client):
        return f"its factory returned {type(client).__name__}, which is no devrt.contract.Client"
    return "" if client.device_count() else "its client has no devices"
