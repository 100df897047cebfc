"""Backends that are known without being installed, so that an error can say what to install."""

from __future__ import annotations

import os

from devrt.plugins import _simple_toml
from devrt.plugins._adopted import adopted_table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["platform_with_option", "wheels_for"]

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


def platform_with_option(option: str) -> tuple[str, str] | None:
    """Return the platform and the distribution that declare an option; None if none is known."""
    for row in _rows():
        if option in row.get("options", ()):
            return str(row["platform"]), str(row["wheel"])
    return None


def _rows() -> list[dict[str, Any]]:
    with open(_TABLE, encoding="utf-8") as file:
        document = _simple_toml.parse(file.read())
    assert document is not None, "the table is in plain form; a test reads it"
    rows: list[dict[str, Any]] = document["wheel"]
    return rows
