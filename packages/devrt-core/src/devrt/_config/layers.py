"""Typed options, layered, each value with its origin.

From weakest to strongest: the option's default, the user's file, the project's file, the
environment, ``config.update``, and ``config.override`` (a context manager, per thread and per
asyncio task). Files and environment are read when an option is first requested and remembered, so
that one question has one answer.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, ClassVar

from devrt._config.files import ConfigFile, read_config_files
from devrt._config.guards import IMPLIED, is_guard, names_a_guard
from devrt._config.keys import FileKeys, carries, option_of, similar, unknown_option
from devrt._config.options import CORE_OPTIONS, NOT_OPTIONS
from devrt._config.values import checked, flag_value
from devrt._support.context import Context
from devrt._support.record import record
from devrt.errors import ConfigError
from devrt.records import OptionSpec

__all__ = ["CORE_OPTIONS", "Config", "ConfigReport", "Setting"]


@record(frozen=True, slots=True)
class Setting:
    """An option's value and where it comes from.

    Attributes
    ----------
    name : str
        The option.
    value : object
        The value in force.
    origin : str
        ``"default"``, ``"file"``, ``"environment"``, ``"code"`` or ``"context"``.
    detail : str
        The file's path or the environment variable's name; else empty.
    """

    name: str
    value: Any
    origin: str
    detail: str = ""


@record(frozen=True, slots=True)
class ConfigReport:
    """What `Config.report` found.

    Attributes
    ----------
    settings : list of Setting
        Of every option whose value fits, sorted by name.
    files : list of str
        The configuration files that could be read, the strongest first.
    problems : list of ConfigError
        Of files that cannot be read, values that do not fit, and keys that name no option.
    """

    settings: list[Setting]
    files: list[str]
    problems: list[ConfigError]


class Config:
    """The options of one runtime.

    Options read as attributes (``config.platforms``), and assigning to one is `update`; those of a
    plugin appear once it is loaded.

    Parameters
    ----------
    environ
        The environment to read; the process's own when omitted.
    check_keys
        Whether a file's key that names no option is an error; not where another process with more
        plugins sees to that.
    """

    guards_are_set: ClassVar[bool] = names_a_guard(os.environ)
    """Whether any transfer guard was ever set; read where a transfer must not pay for the check."""

    def __init__(
        self, environ: Mapping[str, str] | None = None, *, check_keys: bool = True
    ) -> None:
        self._environ = os.environ if environ is None else environ
        self._specs: dict[str, OptionSpec] = {}
        self._code: dict[str, Any] = {}
        self._settled: dict[str, Setting] = {}
        self._frozen: dict[str, tuple[str, Any]] = {}
        self._overrides: contextvars.ContextVar[Mapping[str, Any] | None] = contextvars.ContextVar(
            "devrt_config", default=None
        )
        self._find_more: Callable[[], None] | None = None
        self._why_absent: Callable[[str], str] = lambda name: ""
        self._platforms: Callable[[], Iterable[str]] = tuple
        self._files: tuple[ConfigFile, ...] | None = None
        self._keys = self._new_keys()
        self._check_keys = check_keys
        self._generation = 0
        self._lock = threading.Lock()
        self.define(*CORE_OPTIONS)
        if names_a_guard(self._environ):
            Config.guards_are_set = True

    def define(self, *specs: OptionSpec) -> None:
        """Add options, or none where one is refused. Defining an equal one again does nothing.

        Raises
        ------
        ConfigError
            If another option of that name exists.
        """
        with self._lock:
            all_specs = dict(self._specs)
            for spec in specs:
                if (known := all_specs.setdefault(spec.name, spec)) != spec:
                    both = f"{known} and {spec}. Rename one of them."
                    msg = f"option {spec.name!r} is declared twice, differently: {both}"
                    raise ConfigError(msg, option=spec.name)
            self._specs.update(all_specs)

    def when_unknown(
        self,
        find_more: Callable[[], None],
        platforms: Callable[[], Iterable[str]] = tuple,
        why_absent: Callable[[str], str] = lambda name: "",
    ) -> None:
        """Say where options come from that are not known yet.

        ``find_more`` is called before an unknown name is refused, and may `define` options.
        ``platforms`` returns those whose plugins are installed and not loaded: a plugin's option
        carries its platform's name, so a file may set it before. ``why_absent`` returns whose
        option a name is and why that is not there, as a sentence; empty if it is nobody's.
        """
        self._why_absent = why_absent
        self._find_more = find_more
        self._platforms = platforms

    def names(self) -> tuple[str, ...]:
        """Return the names of the options known so far, sorted."""
        return tuple(sorted(self._specs))

    def spec(self, name: str) -> OptionSpec:
        """Return the declaration of an option, or of a ``jax_`` spelling of it.

        Raises
        ------
        ConfigError
            If no option has that name; the message gives the nearest ones.
        """
        given: Any = name  # callers are not bound by the annotation
        if not isinstance(given, str):
            msg = f"an option is named by a string, not by {given!r}."
            raise ConfigError(msg, option=given)
        key = name.removeprefix("jax_")
        if key not in self._specs and self._find_more is not None:
            self._find_more()
        if key not in self._specs:
            absent = self._keys.whose(key)
            raise unknown_option(name, f"there is no option {name!r}", self._specs, absent)
        return self._specs[key]

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment variables that are read."""
        return self._environ

    def unread(self) -> tuple[str, ...]:
        """Return the ``DEVRT_`` variables of the environment that name no option, sorted.

        An option of a plugin that is not loaded yet is among them.
        """
        known = {f"DEVRT_{name.upper()}" for name in self._specs} | set(NOT_OPTIONS)
        return tuple(sorted(v for v in self._environ if v.startswith("DEVRT_") and v not in known))

    def unread_with_hints(self) -> list[tuple[str, list[str]]]:
        """Return the variables of `unread` that no plugin explains, each with those it may mean.

        What may be an option of a plugin that is not loaded yet is not among them.
        """
        unread = self.unread()
        if not unread:
            return []
        may_be_elsewhere = carries(self._platforms())
        own = [spec.name for spec in CORE_OPTIONS]
        own += [variable.removeprefix("DEVRT_").lower() for variable in NOT_OPTIONS]
        names = [(v, v.removeprefix("DEVRT_").lower()) for v in unread]
        left = [(v, similar(n, self._specs, own)) for v, n in names if not may_be_elsewhere(n)]
        return [(variable, [f"DEVRT_{n.upper()}" for n in near]) for variable, near in left]

    def files(self) -> tuple[ConfigFile, ...]:
        """Return the configuration files that are in force, the strongest first.

        Raises
        ------
        ConfigError
            If one cannot be read, is no valid TOML, or sets an option that does not exist.
        """
        if self._files is None:
            files = read_config_files(self._environ, os.getcwd())
            for key in (key for file in files for key in file.values):
                _notice_guard(key)
            if self._check_keys:
                self._keys.read(files)
            self._files = files
        self._keys.check(self._specs, self._platforms)
        return self._files

    def report(self) -> ConfigReport:
        """Return every option's setting and everything that is wrong; raise nothing of it."""
        problems: list[ConfigError] = []
        files = read_config_files(self._environ, os.getcwd(), problems)
        overrides = self._overrides.get() or {}
        settings = []
        for name in self.names():
            try:
                settled = self._settle(self._specs[name], files)
            except ConfigError as error:
                problems.append(error)
                continue
            overridden = name in overrides
            settings.append(Setting(name, overrides[name], "context") if overridden else settled)
        keys = self._new_keys()
        keys.read(files)
        problems += keys.mistakes(self._specs, self._platforms)
        return ConfigReport(settings, [file.path for file in files], problems)

    def _new_keys(self) -> FileKeys:
        own = [spec.name for spec in CORE_OPTIONS]
        return FileKeys(own, lambda name: self._why_absent(name))

    def waiting_keys(self) -> list[tuple[str, str]]:
        """Return the path and the key of what files set for plugins that are not loaded yet."""
        return self._keys.waiting(self._specs, self._platforms)

    def update(self, name: str, value: Any) -> None:
        """Set an option for the whole process.

        Raises
        ------
        ConfigError
            If the option is unknown, the value does not fit, or what it configures was already
            made with another value.
        """
        spec = self.spec(name)
        value = checked(spec, value, f"config.update({name!r}, ...)")
        self._check_frozen(spec.name, value)
        for each in (spec.name, *IMPLIED.get(spec.name, ())):
            self._code[each] = value
            self._forget(each)
        _notice_guard(spec.name)

    @contextlib.contextmanager
    def override(self, **values: Any) -> Iterator[None]:
        """Set options within a ``with`` block, in this thread or task only.

        Raises
        ------
        ConfigError
            As `update`.
        """
        mine = dict(self._overrides.get() or {})
        for name, value in values.items():
            spec = self.spec(name)
            value = checked(spec, value, f"config.override({name}=...)")
            self._check_frozen(spec.name, value)
            mine.update(dict.fromkeys((spec.name, *IMPLIED.get(spec.name, ())), value))
            _notice_guard(spec.name)
        token = self._overrides.set(mine)
        Context.overridden()
        try:
            yield
        finally:
            self._overrides.reset(token)

    def read(self, name: str) -> Any:
        """Return an option's value."""
        return self.setting(name).value

    def setting(self, name: str) -> Setting:
        """Return an option's value together with its origin."""
        spec = self.spec(name)
        overrides = self._overrides.get()
        if overrides is not None and spec.name in overrides:
            return Setting(spec.name, overrides[spec.name], "context")
        settled = self._settled.get(spec.name)
        if settled is None:
            generation = self._generation
            settled = self._settle(spec)
            with self._lock:
                if generation == self._generation:  # else an update came in between
                    self._settled[spec.name] = settled
        self._keys.check(self._specs, self._platforms)  # a plugin was loaded since, perhaps
        return settled

    def is_set(self, variable: str) -> bool:
        """Return whether a variable is set; of an option's, whether anything sets the option.

        The option may be one of a plugin that is not loaded: the variable's name tells it. A value
        that is wrong is set: its plugin is used, and refuses it.
        """
        name = option_of(variable)
        try:
            if name in self._specs:
                return bool(self.read(name))
            if name and any(file.values.get(name) for file in self.files()):
                return True
        except ConfigError as error:
            if name and error.data.get("option") == name:
                return True
        names = (variable, f"JAX_{name.upper()}") if name else (variable,)
        return any(map(self._environ.get, names))

    @property
    def generation(self) -> int:
        """A number that grows with every change outside `override`."""
        return self._generation

    @property
    def overridden(self) -> bool:
        """Whether this thread or task is inside a `override` block."""
        return self._overrides.get() is not None

    def freeze(self, names: tuple[str, ...], by: str) -> None:
        """Refuse further changes of options that ``by`` was made with."""
        for name in names:
            self._frozen[name] = (by, self.read(name))

    def thaw(self) -> None:
        """Allow changes again, and read files and environment anew."""
        self._frozen.clear()
        self._settled.clear()
        self._files = None
        self._keys.read(())
        self._generation += 1
        Context.changed()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.read(name)
        except ConfigError as error:
            raise AttributeError(str(error)) from error

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self.update(name, value)

    def _check_frozen(self, name: str, value: Any) -> None:
        frozen = self._frozen.get(name)
        if frozen is None or frozen[1] == value:
            return
        by, made_with = frozen
        msg = (
            f"option {name!r} cannot become {value!r} any more: {by} was made with "
            f"{made_with!r}. Set it before the first use of the platform, or call "
            "devrt.clear_backends() first."
        )
        raise ConfigError(msg, option=name, frozen_by=by)

    def _forget(self, name: str) -> None:
        with self._lock:
            self._generation += 1
            Context.changed()
            self._settled.pop(name, None)

    def _settle(self, spec: OptionSpec, files: tuple[ConfigFile, ...] | None = None) -> Setting:
        if spec.name in self._code:
            return Setting(spec.name, self._code[spec.name], "code")
        for variable in (f"DEVRT_{spec.name.upper()}", f"JAX_{spec.name.upper()}"):
            text = self._environ.get(variable)
            if text:
                value = checked(spec, text, f"environment variable {variable}")
                return Setting(spec.name, value, "environment", variable)
        text = flag_value(spec.flag, self._environ) if spec.flag else None
        if text is not None:
            variable, _, flag = spec.flag.partition(" ")
            value = checked(spec, text, f"environment variable {variable} ({flag})")
            return Setting(spec.name, value, "environment", variable)
        for file in self.files() if files is None else files:
            if spec.name in file.values:
                value = checked(spec, file.values[spec.name], f"configuration file {file.path}")
                return Setting(spec.name, value, "file", file.path)
        return Setting(spec.name, spec.default, "default")


def _notice_guard(name: str) -> None:
    if is_guard(name):
        Config.guards_are_set = True
