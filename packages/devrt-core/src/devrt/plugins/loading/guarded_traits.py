"""Calling what a plugin's traits bring: an error in it names the plugin and the field."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from devrt._support import log
from devrt._support.record import replaced
from devrt.errors import DevrtError, PluginError
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.loading.faults import contract_error, usual_remedy
from devrt.records import PluginTraits

__all__ = ["guarded"]


def _maps(keys: Any, *kinds: type) -> bool:
    return isinstance(keys, Mapping) and all(
        isinstance(key, str) and isinstance(value, kinds) for key, value in keys.items()
    )


def _is_topology(value: Any) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and isinstance(value[0], str)
        and _maps(value[1], object)
    )


_RETURNS: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "environment": ("strings by name", lambda value: _maps(value, str)),
    "adapt_options": ("options by name", lambda value: _maps(value, object)),
    "adapt_topology": ("a name and options by name", _is_topology),
    "compiler_flags": ("strings, bools or numbers by name", lambda v: _maps(v, str, int, float)),
    "explain": ("an error of devrt.errors", lambda value: isinstance(value, DevrtError)),
}


def guarded(ref: PluginRef, traits: PluginTraits) -> PluginTraits:
    """Return traits whose callables raise errors that name the plugin.

    Errors of `devrt.errors` that they raise stay as they are. One in ``explain`` is logged, and
    the compiler's own error stays.
    """
    checked = {name: _checked(ref, name, getattr(traits, name)) for name in _RETURNS}
    return replaced(traits, **{**checked, "explain": _or_same(checked["explain"])})


def _checked(ref: PluginRef, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    what, is_valid = _RETURNS[name]

    @functools.wraps(function, updated=())
    def call(*arguments: Any) -> Any:
        try:
            value = function(*arguments)
        except DevrtError:
            raise
        except (Exception, SystemExit) as error:  # plugin code: anything may come out of it
            msg = (
                f"PluginTraits.{name} of plugin {ref} failed: {type(error).__name__}: {error}. "
                f"{usual_remedy(ref)}"
            )
            raise PluginError(msg, phase="traits", field=name, **ref.facts()) from error
        if not is_valid(value):
            problem = f"PluginTraits.{name} must return {what}, not {value!r:.80}"
            raise contract_error(ref, problem, field=name)
        return value

    return call


def _or_same(explain: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(explain, updated=())
    def call(error: DevrtError) -> Any:
        try:
            return explain(error)
        except DevrtError as failure:
            log.info("the compiler's error stays as it is: %s", failure.message)
            return error

    return call
