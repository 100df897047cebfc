"""What the option ``--mock`` of commands does: simulated devices in place of the machine's."""

from __future__ import annotations

import re

from devrt.cli import report
from devrt.errors import ConfigError, InvalidArgumentError
from devrt.runtime import default_runtime

__all__ = ["simulate"]


def simulate(requested: str) -> str:
    """Have this process simulate devices, and return their platform.

    ``requested`` is a platform and its devices: ``"PLATFORM:2x4"`` for two nodes of four.

    Raises
    ------
    InvalidArgumentError
        If it is written in another way, or the platform has no simulated devices.
    """
    platform, colon, devices = requested.partition(":")
    if not colon or not re.fullmatch(r"[a-z][a-z0-9_]*(@[\w.-]+)?", platform) or not devices:
        msg = f"simulated devices are written PLATFORM:4 or PLATFORM:2x4, not {requested!r}."
        raise InvalidArgumentError(msg, option="--mock")
    try:
        default_runtime().config.update(f"{platform.partition('@')[0]}_mock", devices)
    except ConfigError as error:
        raise _refused(platform, "") from error
    found = report.usable(platform)
    if not found.factories[0].simulates:
        raise _refused(platform, f": {found.clients[0].platform_version}")
    return platform


def _refused(platform: str, why: str) -> InvalidArgumentError:
    msg = f"platform {platform!r} has no simulated devices{why}."
    return InvalidArgumentError(msg, option="--mock")
