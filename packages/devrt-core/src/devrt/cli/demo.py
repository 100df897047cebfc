"""What ``devrt demo --mock`` does: simulated devices are set up, shown, and used."""

from __future__ import annotations

import os
import re

import click

from devrt.cli import topo
from devrt.errors import InvalidArgumentError

__all__ = ["run_simulated"]


def run_simulated(requested: str) -> bool:
    """Show simulated devices at work; return whether all comparisons agreed.

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
    # A variable, since the processes that probe plugins have to know of it too.
    name = platform.partition("@")[0].upper()
    os.environ[f"DEVRT_{name}_MOCK"] = devices
    found = topo.topology(platform)
    shown = found["platforms"][0]
    if not all("simulated" in device["kind"] for device in shown["devices"]):
        msg = f"platform {platform!r} has no simulated devices: {shown['platform_version']}."
        raise InvalidArgumentError(msg, option="--mock")
    click.echo(
        f"These devices are SIMULATED: {requested} is threads and memory of this machine's "
        "processor.\nNothing that is shown here says how fast such a device is.\n"
    )
    topo.show(found)
    from devrt.examples import simulated

    return simulated.run(platform)
