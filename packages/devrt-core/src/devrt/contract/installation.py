"""The commands that install distributions, as every message and report gives them.

No index has devrt's own distributions yet: they are installed from its checkout. The day that
changes, this module changes.
"""

from __future__ import annotations

import functools
import os

from devrt._support import simple_toml

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["how_to_install", "install_command", "known_wheels", "loader_wheel", "name_of"]

_CORE = os.path.dirname(os.path.dirname(__file__))
_TABLE = os.path.join(_CORE, "plugins", "discovery", "data", "wheels.toml")


def install_command(*requirements: str, options: str = "") -> str:
    """Return the command that installs distributions.

    Parameters
    ----------
    *requirements
        What pip takes: a name, with extras or a version if they matter (``devrt-cpu[xla]``).
    options
        Options of pip.
    """
    given = [_quoted(_source(requirement)) for requirement in requirements]
    return " ".join(["pip install", *filter(None, [options]), *given])


def how_to_install(*requirements: str, options: str = "") -> str:
    """Return the same for a message, with where the command is to be run."""
    is_own = any(name_of(requirement) in _own_names() for requirement in requirements)
    where = " (in devrt's checkout)" if is_own else ""
    return install_command(*requirements, options=options) + where


@functools.cache
def known_wheels() -> tuple[dict[str, Any], ...]:
    """Return the rows of the table of wheels."""
    with open(_TABLE, encoding="utf-8") as file:
        document = simple_toml.parse(file.read())
    assert document is not None, "the table is in plain form; a test reads it"
    return tuple(document["wheel"])


def loader_wheel() -> str:
    """Return the distribution that loads PJRT libraries of any platform."""
    return next(str(row["wheel"]) for row in known_wheels() if row.get("loads_pjrt"))


def name_of(requirement: str) -> str:
    """Return the name of the distribution in a requirement."""
    ends = (i for i, c in enumerate(requirement) if not (c.isalnum() or c in "-_."))
    return requirement[: next(ends, len(requirement))]


@functools.cache
def _own_names() -> frozenset[str]:
    return frozenset({"devrt-core", *(str(row["wheel"]) for row in known_wheels())})


def _source(requirement: str) -> str:
    return f"./packages/{requirement}" if name_of(requirement) in _own_names() else requirement


def _quoted(argument: str) -> str:
    return f'"{argument}"' if set(argument) & set("[]<>!;* ") else argument
