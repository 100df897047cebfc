"""What ``devrt demo --mock`` does: simulated devices are set up, shown, and used."""

from __future__ import annotations

import click

from devrt.cli import topo
from devrt.cli.simulated import simulate

__all__ = ["run_simulated"]


def run_simulated(requested: str) -> bool:
    """Show simulated devices at work; return whether all comparisons agreed.

    ``requested`` is as `devrt.cli.simulated.simulate` takes it.
    """
    platform = simulate(requested)
    click.echo(
        f"These devices are SIMULATED: {requested} is threads and memory of this machine's "
        "processor.\nNothing that is shown here says how fast such a device is.\n"
    )
    topo.show(topo.topology(platform))
    from devrt.examples import simulated

    return simulated.run(platform)
