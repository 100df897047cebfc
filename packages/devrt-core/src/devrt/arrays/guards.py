"""Transfer guards: transfers that nobody requested by name can be logged or refused."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from devrt._config.layers import Config
from devrt.errors import InvalidArgumentError
from devrt.runtime import default_runtime

__all__ = [
    "Config",
    "check_transfer",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
]

Direction: TypeAlias = Literal["host_to_device", "device_to_device", "device_to_host"]

_logger = logging.getLogger("devrt.transfers")
_STRENGTH = ("default", "file", "environment", "code", "context")
# The levels that act, and whether they act on transfers that are requested by name too.
_ACTIONS = {
    "log": False,
    "disallow": False,
    "log_explicit": True,
    "log_explicit_device_put": True,
    "disallow_explicit": True,
}


def check_transfer(
    direction: Direction, operation: str, x: Any, target: object, *, is_explicit: bool
) -> None:
    """Let a transfer pass, log it or refuse it, as the guard in force says.

    Call it only where ``Config.guards_are_set``, so that programs without guards pay nothing. A
    transfer is explicit if the user requested it by name, as with `device_put` and `device_get`.
    The `InvalidArgumentError` names the direction, the operation, the array and the target.
    """
    level = _level(direction)
    covers_explicit = _ACTIONS.get(level)
    if covers_explicit is None or (is_explicit and not covers_explicit):
        return
    kind = "explicit" if is_explicit else "implicit"
    names = direction.replace("_", "-")
    what = f"{kind} {names} transfer by {operation}: {_described(x)} to {target}"
    if level.startswith("log"):
        _logger.warning("%s", what)
        return
    instead = "Leave it out" if is_explicit else "Ask for it with device_put or device_get"
    msg = (
        f"the transfer guard {level!r} refuses an {what}. {instead}, or allow it with "
        f"devrt.transfer_guard_{direction}('allow')."
    )
    raise InvalidArgumentError(msg, operation=operation, direction=direction, level=level)


def transfer_guard(level: str) -> contextlib.AbstractContextManager[None]:
    """Guard transfers in every direction within a ``with`` block, in this thread or task.

    Parameters
    ----------
    level
        ``"allow"``; ``"log"`` or ``"disallow"``, for transfers that are not requested by name;
        ``"log_explicit"`` or ``"disallow_explicit"``, for `device_put` and `device_get` too.

    Raises
    ------
    ConfigError
        If there is no such level.

    Notes
    -----
    Logged transfers go to the logger ``devrt.transfers`` as warnings. Reading an array that lies
    on host-visible memory, and putting one where it is already, moves nothing and is not guarded.
    """
    return _guard(transfer_guard=level)


def transfer_guard_host_to_device(level: str) -> contextlib.AbstractContextManager[None]:
    """Guard transfers from host values to devices; see `transfer_guard`."""
    return _guard(transfer_guard_host_to_device=level)


def transfer_guard_device_to_device(level: str) -> contextlib.AbstractContextManager[None]:
    """Guard transfers between devices, memories and shardings; see `transfer_guard`."""
    return _guard(transfer_guard_device_to_device=level)


def transfer_guard_device_to_host(level: str) -> contextlib.AbstractContextManager[None]:
    """Guard transfers from devices to host values; see `transfer_guard`."""
    return _guard(transfer_guard_device_to_host=level)


@contextlib.contextmanager
def _guard(**options: str) -> Iterator[None]:
    with default_runtime().config.override(**options):
        yield


def _level(direction: Direction) -> str:
    """Return the level in force: the option of the direction, or a stronger one for all."""
    config = default_runtime().config
    own = config.setting(f"transfer_guard_{direction}")
    for_all = config.setting("transfer_guard")
    is_stronger = _STRENGTH.index(for_all.origin) > _STRENGTH.index(own.origin)
    if own.value is None or (is_stronger and for_all.value is not None):
        return for_all.value or "allow"
    return str(own.value)


def _described(x: Any) -> str:
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if shape is None or dtype is None:
        return f"a value of type {type(x).__name__}"
    return f"{dtype}[{', '.join(map(str, shape))}]"
