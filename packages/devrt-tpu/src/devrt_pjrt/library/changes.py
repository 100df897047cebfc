"""What a plugin changes in its process when it is initialised: signal handlers and environment."""

from __future__ import annotations

import dataclasses
import signal
from collections.abc import Mapping
from types import MappingProxyType

from devrt_pjrt._native import ffi, lib

__all__ = ["Changes", "Snapshot"]


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """What is different since a plugin was initialised.

    ``environment`` has the variables that it has set, which `os.environ` does not show;
    ``handlers`` the signals whose handlers it has replaced, or that it has set to be ignored.
    """

    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    handlers: tuple[str, ...] = ()


class Snapshot:
    """The process as it is now."""

    def __init__(self) -> None:
        self._environment = dict(_environment())
        self._handlers = {
            number: lib.devrt_signal_handler(number) for number in signal.valid_signals()
        }

    def changes(self) -> Changes:
        """Return what has changed since."""
        now = Snapshot()
        environment = {
            name: value
            for name, value in now._environment.items()
            if self._environment.get(name) != value
        }
        handlers = tuple(
            _name(number)
            for number, handler in now._handlers.items()
            if self._handlers.get(number) != handler
        )
        return Changes(MappingProxyType(environment), handlers)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _environment() -> list[tuple[str, str]]:
    at, found = lib.devrt_environ(), []
    while at != ffi.NULL and at[0] != ffi.NULL:
        name, _, value = ffi.string(at[0]).decode(errors="surrogateescape").partition("=")
        found.append((name, value))
        at += 1
    return found
