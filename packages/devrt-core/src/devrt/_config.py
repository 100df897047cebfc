"""Typed options, layered, each value with its origin.

From weakest to strongest: the option's default, the environment, ``config.update``, and
``config.override`` (a context manager, per thread and per asyncio task). The environment is read
when an option is first asked for and remembered, so that one question has one answer.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import difflib
import math
import operator
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from devrt.errors import ConfigError
from devrt.records import OptionSpec

__all__ = ["CORE_OPTIONS", "Config", "Setting"]

CORE_OPTIONS = (
    OptionSpec(
        name="platforms",
        type=str,
        help="Comma-separated platforms that may be used, the default one first.",
    ),
    OptionSpec(
        name="platform_name",
        type=str,
        help="The default platform; unlike 'platforms' it forbids no other.",
    ),
    OptionSpec(
        name="default_device",
        type=object,
        help="The device for arrays that are placed without naming one.",
    ),
)

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})


@dataclasses.dataclass(frozen=True, slots=True)
class Setting:
    """An option's value and where it comes from.

    Attributes
    ----------
    name : str
        The option.
    value : object
        The value in force.
    origin : str
        ``"default"``, ``"environment"``, ``"code"`` or ``"context"``.
    detail : str
        The environment variable's name where the origin is the environment; else empty.
    """

    name: str
    value: Any
    origin: str
    detail: str = ""


class Config:
    """The options of one runtime.

    Options read as attributes (``config.platforms``), and assigning to one is `update`; those of a
    plugin appear once it is loaded.

    Parameters
    ----------
    environ
        The environment to read; the process's own when omitted.
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = os.environ if environ is None else environ
        self._specs: dict[str, OptionSpec] = {}
        self._code: dict[str, Any] = {}
        self._settled: dict[str, Setting] = {}
        self._frozen: dict[str, tuple[str, Any]] = {}
        self._overrides: contextvars.ContextVar[Mapping[str, Any] | None] = contextvars.ContextVar(
            "devrt_config", default=None
        )
        self._find_more: Callable[[], None] | None = None
        self._generation = 0
        for spec in CORE_OPTIONS:
            self.define(spec)

    def define(self, spec: OptionSpec) -> None:
        """Add an option. Defining an equal one again does nothing.

        Raises
        ------
        ConfigError
            If another option of that name exists.
        """
        known = self._specs.setdefault(spec.name, spec)
        if known != spec:
            msg = (
                f"option {spec.name!r} is declared twice, differently: {known} and {spec}. "
                "Rename one of them."
            )
            raise ConfigError(msg, option=spec.name)

    def when_unknown(self, find_more: Callable[[], None]) -> None:
        """Call ``find_more`` before an unknown name is refused; it may `define` options."""
        self._find_more = find_more

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
        key = name.removeprefix("jax_")
        if key not in self._specs and self._find_more is not None:
            self._find_more()
        if key not in self._specs:
            near = difflib.get_close_matches(key, self._specs, n=3)
            hint = f"Did you mean {' or '.join(map(repr, near))}? " if near else ""
            msg = f"there is no option {name!r}. {hint}Options: {', '.join(self.names())}."
            raise ConfigError(msg, option=name)
        return self._specs[key]

    def update(self, name: str, value: Any) -> None:
        """Set an option for the whole process.

        Raises
        ------
        ConfigError
            If the option is unknown, the value does not fit, or what it configures was already
            made with another value.
        """
        spec = self.spec(name)
        value = _checked(spec, value, f"config.update({name!r}, ...)")
        self._check_frozen(spec.name, value)
        self._code[spec.name] = value
        self._forget(spec.name)

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
            value = _checked(spec, value, f"config.override({name}=...)")
            self._check_frozen(spec.name, value)
            mine[spec.name] = value
        token = self._overrides.set(mine)
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
            settled = self._settled[spec.name] = self._settle(spec)
        return settled

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
        """Allow changes again and read the environment anew: nothing made with it is left."""
        self._frozen.clear()
        self._settled.clear()
        self._generation += 1

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
        self._settled.pop(name, None)
        self._generation += 1

    def _settle(self, spec: OptionSpec) -> Setting:
        if spec.name in self._code:
            return Setting(spec.name, self._code[spec.name], "code")
        for variable in (f"DEVRT_{spec.name.upper()}", f"JAX_{spec.name.upper()}"):
            text = self._environ.get(variable)
            if text:
                value = _checked(spec, text, f"environment variable {variable}")
                return Setting(spec.name, value, "environment", variable)
        return Setting(spec.name, spec.default, "default")


def _checked(spec: OptionSpec, value: Any, source: str) -> Any:
    if spec.type is object or (value is None and spec.default is None):
        return value
    try:
        converted = _converted(spec.type, value)
    except (TypeError, ValueError):
        msg = f"{source}: option {spec.name!r} takes {spec.type.__name__}, not {value!r}."
        raise ConfigError(msg, option=spec.name, value=value, source=source) from None
    if spec.minimum is not None and converted < spec.minimum:
        msg = f"{source}: option {spec.name!r} must be at least {spec.minimum}, not {value!r}."
        raise ConfigError(msg, option=spec.name, value=value, source=source)
    return converted


def _converted(kind: type, value: Any) -> Any:
    if kind is bool:
        word = str(value).strip().lower()
        if word not in _TRUE | _FALSE:
            raise ValueError(word)
        return word in _TRUE
    if kind is int and (isinstance(value, bool) or (isinstance(value, float) and value % 1)):
        raise ValueError(value)
    if kind is str and not isinstance(value, str):
        raise TypeError(value)
    if kind is int and not isinstance(value, (str, float)):
        return operator.index(value)
    if kind is float and math.isnan(number := float(value)):
        raise ValueError(number)
    return kind(value)
