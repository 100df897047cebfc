"""Backends that are known without being installed, so that an error can say what to install."""

from __future__ import annotations

from devrt.contract.installation import how_to_install, install_command, known_wheels, name_of
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.discovery.refs import normalized

__all__ = [
    "advice_for",
    "advice_for_topologies",
    "command_for",
    "command_for_module",
    "has_topology_extra",
    "known_topologies",
    "platform_with_option",
    "wheels_for",
    "wheels_for_topology",
]


def wheels_for(name: str) -> tuple[str, ...]:
    """Return the distributions that serve a platform or an alias, as far as they are known."""
    name = name.partition("@")[0]
    own = tuple(
        str(row["wheel"])
        for row in known_wheels()
        if name == row["platform"] or name in row.get("aliases", ())
    )
    others = (
        str(distribution)
        for distribution, row in adopted_table().rows.items()
        if name == row["platform"]
    )
    return own or tuple(sorted(others)[:1])


def wheels_for_topology(name: str) -> dict[str, str]:
    """Return, by platform, the distributions that describe devices of a topology's name."""
    kind = name.partition(":")[0]
    return {
        str(row["platform"]): str(row["wheel"])
        for row in known_wheels()
        if kind in row.get("topologies", ())
    }


def known_topologies() -> dict[str, tuple[str, ...]]:
    """Return, by platform, what the names of topologies that are known begin with."""
    rows = (row for row in known_wheels() if "topologies" in row)
    return {str(row["platform"]): tuple(row["topologies"]) for row in rows}


def command_for(wheel: str) -> str:
    """Return what installs a distribution together with what it is of no use without."""
    return install_command(*_with_it(wheel))


def advice_for(wheel: str) -> str:
    """Return the same for a message."""
    return how_to_install(*_with_it(wheel))


def has_topology_extra(wheel: str) -> bool:
    """Return whether an extra of a wheel describes devices that are not here."""
    return _with_it(wheel, "describe", "install")[0] != wheel


def advice_for_topologies(wheel: str) -> str:
    """Return what to install to compile for devices that are not here, for a message."""
    return how_to_install(*_with_it(wheel, "describe", "install"))


def command_for_module(distribution: str, module: str) -> str:
    """Return what installs a module that a distribution needs.

    By the requirement of that name; where there is none, the distribution again.

    Parameters
    ----------
    distribution
        The distribution, which is installed.
    module
        The module that it cannot import.
    """
    from importlib import metadata

    wanted = normalized(module.partition(".")[0])
    try:
        required = metadata.requires(distribution) or []
    except (metadata.PackageNotFoundError, ValueError):
        required = []
    for line in required:
        if ";" not in line and normalized(name_of(line)) == wanted:
            return install_command(line)
    return install_command(distribution, options="--force-reinstall")


def platform_with_option(option: str) -> tuple[str, str] | None:
    """Return the platform and the distribution that declare an option; None if none is known."""
    for row in known_wheels():
        if option in row.get("options", ()):
            return str(row["platform"]), str(row["wheel"])
    return None


def _with_it(wheel: str, *keys: str) -> tuple[str, ...]:
    rows = [row for row in known_wheels() if row["wheel"] == wheel]
    found = (row[key] for key in keys or ("install",) for row in rows if key in row)
    return tuple(next(found, (wheel,)))
