"""Backends that are known without being installed, so that an error can say what to install."""

from __future__ import annotations

import os

from devrt._support import simple_toml
from devrt.plugins.discovery.adopted import adopted_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["how_to_install", "install_command", "platform_with_option", "wheels_for"]

_TABLE = os.path.join(os.path.dirname(__file__), "data", "wheels.toml")


def wheels_for(name: str) -> tuple[str, ...]:
    """Return the distributions that serve a platform or an alias, as far as they are known."""
    name = name.partition("@")[0]
    own = tuple(
        str(row["wheel"])
        for row in _rows()
        if name == row["platform"] or name in row.get("aliases", ())
    )
    others = (
        str(distribution)
        for distribution, row in adopted_table().rows.items()
        if name == row["platform"]
    )
    return own or tuple(sorted(others)[:1])


def install_command(*wheels: str, options: str = "") -> str:
    """Return what installs distributions; devrt's own come from its checkout, not from an index."""
    own = _own()
    given = [f"./packages/{wheel}" if wheel in own else wheel for wheel in wheels]
    return " ".join(["pip install", *filter(None, [options]), *given])


def how_to_install(*wheels: str, options: str = "") -> str:
    """Return the same for a message, with where the command is to be run."""
    where = " (in devrt's checkout)" if _own() & {*wheels} else ""
    return install_command(*wheels, options=options) + where


def platform_with_option(option: str) -> tuple[str, str] | None:
    """Return the platform and the distribution that declare an option; None if none is known."""
    for row in _rows():
        if option in row.get("options", ()):
            return str(row["platform"]), str(row["wheel"])
    return None


def _own() -> set[str]:
    return {"devrt-core", *(str(row["wheel"]) for row in _rows())}


def _rows() -> list[dict[str, Any]]:
    with open(_TABLE, encoding="utf-8") as file:
        document = simple_toml.parse(file.read())
    assert document is not None, "the table is in plain form; a test reads it"
    rows: list[dict[str, Any]] = document["wheel"]
    return rows
