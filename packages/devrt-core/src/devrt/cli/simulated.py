"""What the option ``--mock`` of commands does: simulated devices in place of the machine's."""

from __future__ import annotations

import re

from devrt.cli import report
from devrt.errors import ConfigError, InvalidArgumentError
from devrt.native.gpu_simulation import parsed_topology
from devrt.runtime import default_runtime

__all__ = ["simulate"]


def simulate(requested: str) -> str:
    """Have this process simulate devices, and return their platform.

    ``requested`` is a platform and its devices: ``"PLATFORM:2x4"`` for two nodes of four.

    Raises
    ------
    InvalidArgumentError
        If it is written in another way, the platform has no simulated devices, or not so many.
    """
    platform, colon, devices = requested.partition(":")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9_]*(@[\w.-]+)?", platform) or not devices:
        msg = f"--mock is written PLATFORM:4 or PLATFORM:2x4, not {requested!r}."
        raise InvalidArgumentError(msg, option="--mock")
    try:
        default_runtime().config.update(f"{platform.partition('@')[0]}_mock", devices)
    except ConfigError as error:
        raise _refused(platform, "") from error
    _check_devices(requested, devices)
    found = report.usable(platform)
    if not found.factories[0].simulates:
        raise _refused(platform, f": {found.clients[0].platform_version}")
    return platform


def _check_devices(requested: str, devices: str) -> None:
    """Refuse here what the plugin would refuse by the name of its option, which nobody wrote."""
    try:
        parsed_topology(devices, "DEVICES")
    except InvalidArgumentError as error:
        msg = f"--mock {requested!r}, written PLATFORM:DEVICES: {error.message}"
        raise InvalidArgumentError(msg, option="--mock") from None


def _refused(platform: str, why: str) -> InvalidArgumentError:
    msg = f"platform {platform!r} has no simulated devices{why}."
    return InvalidArgumentError(msg, option="--mock")
