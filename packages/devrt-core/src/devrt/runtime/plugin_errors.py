"""Exceptions of plugins that are none of devrt's: whose they are, and in which operation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from devrt.contract import Client
from devrt.contract.results import ORIGINS, package_of, wrong_result
from devrt.errors import DevrtError, PluginError
from devrt.plugins import PluginRef

if TYPE_CHECKING:
    from devrt.contract.results import Origin

__all__ = [
    "check_count",
    "names_plugins",
    "note_origin",
    "plugin_failure",
    "raise_named",
    "wrong_result",
]

P = ParamSpec("P")
R = TypeVar("R")

_NOT_ITS_OWN = (DevrtError, MemoryError, Warning)
_NOBODYS = ("abc", "builtins", "devrt", "typing")


def note_origin(client: Client, ref: PluginRef) -> None:
    """Remember which plugin made a client, by the packages of its class and of its bases."""
    for cls in type(client).__mro__:
        if (package := package_of(cls.__module__)) not in _NOBODYS:
            ORIGINS[package] = ref


def plugin_failure(
    error: BaseException, client: Client | None = None, operation: str = ""
) -> PluginError | None:
    """Return the error that names a plugin, if a bare exception is one's; None if it is not.

    Its traceback tells: the first frame of a plugin's package below the one that caught it is the
    operation that was called. ``client`` and ``operation`` are named where the frame that caught it
    called a client itself: native code has no frames.
    """
    if isinstance(error, _NOT_ITS_OWN) or not isinstance(error, Exception):
        return None
    at = error.__traceback__
    was_called_here = at is not None and at.tb_next is None
    while at is not None:
        package = _package_at(at)
        if package in ORIGINS:
            return _failure(ORIGINS[package], at.tb_frame.f_code.co_name, error)
        at = at.tb_next
    if client is None or not was_called_here:
        return None
    ref = ORIGINS.get(package_of(type(client).__module__))
    return None if ref is None else _failure(ref, operation, error)


def raise_named(error: Exception, client: Client, operation: str) -> NoReturn:
    """Raise an exception that a call of a client raised, as `PluginError` if it is a bare one."""
    failure = plugin_failure(error, client, operation)
    if failure is None:
        raise error
    raise failure from error


def check_count(made: Sequence[Any], count: int, client: Client, operation: str) -> None:
    """Raise if an operation did not return as many results as it was requested."""
    if len(made) != count:
        raise wrong_result(client, operation, f"{len(made)} results, and {count} were requested")


def names_plugins(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function raise `PluginError` where a plugin raises an exception that is no devrt's."""

    @functools.wraps(function)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if (failure := plugin_failure(error)) is None:
                raise
            raise failure from error

    return guarded


def _failure(ref: Origin, operation: str, error: Exception) -> PluginError:
    cause = f"{type(error).__name__}: {error}".rstrip(": .")
    msg = (
        f"plugin {ref} for platform {ref.platform!r} failed in {operation}: {cause}. Errors of a "
        f"backend are to be devrt's, so this is a defect of {ref}: report it to its "
        "author."
    )
    return PluginError(msg, phase="call", operation=operation, **ref.facts())


def _package_at(at: TracebackType) -> str:
    return package_of(str(at.tb_frame.f_globals.get("__name__", "")))
