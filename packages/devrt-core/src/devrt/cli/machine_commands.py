"""The commands that show the machine: its devices, how they are connected, and what is wrong."""

from __future__ import annotations

import click

from devrt.cli.group import (
    errors_as_json,
    interval_option,
    json_option,
    platform_option,
    print_json,
)

__all__ = ["MACHINE_COMMANDS"]

_mock = click.option(
    "--mock",
    metavar="PLATFORM:DEVICES",
    help="Simulated devices in their place: PLATFORM:4, or PLATFORM:2x4 for two nodes of four.",
)


def _simulated(mock: str | None, platform: str | None) -> str | None:
    """Return the platform that is meant, and have it simulated where that is requested."""
    if mock is None:
        return platform
    from devrt.cli.simulated import simulate

    return simulate(mock)


@click.command()
@platform_option
@json_option
def devices(platform: str | None, as_json: bool) -> None:
    """Show the devices of every backend that can be used."""
    from devrt.cli import report as _report
    from devrt.cli import tables

    with errors_as_json(as_json):
        report = _report.devices(platform)
    if as_json:
        print_json(report)
    else:
        tables.show_devices(report)
    if not report["devices"]:
        click.get_current_context().exit(1)


@click.command(short_help="Show how devices are connected, as a matrix.")
@platform_option
@_mock
@json_option
def topo(platform: str | None, mock: str | None, as_json: bool) -> None:
    """Show how the devices that are attached here are connected, and which processors are near.

    Links are as the vendor's library reports them; where there are none, the way over the PCI bus.
    The exit status is 1 if a backend failed, else 0.
    """
    from devrt.cli import topo as _topo

    with errors_as_json(as_json):
        found = _topo.topology(_simulated(mock, platform))
    if as_json:
        print_json(found)
    else:
        _topo.show(found)
    if found["failures"]:
        click.get_current_context().exit(1)


@click.command(short_help="Examine every plugin; say what is wrong and what to do.")
@json_option
@click.option(
    "--level",
    type=click.Choice(["metadata", "load", "client"]),
    help="How far to go: run nothing, load and probe, or make a client. By default a client, "
    "except for devices that only one process can hold.",
)
@click.option(
    "--platform", "platforms", multiple=True, help="Ask for this platform, not for the default."
)
# Every probe is a fresh one; the flag is taken for the scripts that give it.
@click.option("--fresh", is_flag=True, hidden=True, expose_value=False)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), help="Seconds for each plugin."
)
def doctor(
    as_json: bool, level: str | None, platforms: tuple[str, ...], timeout: float | None
) -> None:
    """Examine every plugin in a child process and say what is wrong and what to do.

    The exit status is 0 if the default backend works and nothing is wrong, 1 if it works and
    something is wrong, 2 if no backend can be used.
    """
    from devrt.cli import doctor as _doctor
    from devrt.doctor import diagnose

    report = diagnose(level=level, platforms=platforms, timeout=timeout)
    if as_json:
        print_json(report.to_dict())
    else:
        _doctor.show(report)
    click.get_current_context().exit(report.status)


@click.command(short_help="Show what devices do now: memory, processes, how busy they are.")
@platform_option
@_mock
@click.option("--once", is_flag=True, help="Print it once, and end.")
@interval_option("reading")
@click.option("--json", "as_json", is_flag=True, help="Print it once, as JSON.")
def top(platform: str | None, mock: str | None, once: bool, interval: float, as_json: bool) -> None:
    """Show what the machine's devices do now, over all processes, again and again.

    The figures are the vendor's library's or the kernel's, and no device is opened for them. Where
    nobody tells of a platform's devices, a client does, with its own use of each kind of memory.
    Clients of processes that were started with DEVRT_SHOW_IN_TOP=1 are shown with theirs.
    """
    from devrt.cli import top as _top

    with errors_as_json(as_json):
        platform = _simulated(mock, platform)
        if not as_json:
            _top.watch(platform, interval, 1 if once else None)
            return
        found = _top.snapshot(_top.sources(platform))
    print_json(found)


MACHINE_COMMANDS = (devices, topo, top, doctor)
