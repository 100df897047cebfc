"""The options of transfer guards, and how to see that one is set without reading the options."""

from __future__ import annotations

from collections.abc import Iterable

from devrt.records import OptionSpec

__all__ = ["GUARD_OPTIONS", "IMPLIED", "is_guard", "names_a_guard"]

_FOR_ALL = "transfer_guard"
_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_DIRECTIONS = ("host_to_device", "device_to_device", "device_to_host")

GUARD_OPTIONS = (
    OptionSpec(
        name=_FOR_ALL,
        type=str,
        choices=(*_LEVELS, "log_explicit_device_put"),
        help="What happens to transfers in every direction: allowed, logged or refused.",
    ),
    *(
        OptionSpec(
            name=f"{_FOR_ALL}_{direction}",
            type=str,
            choices=_LEVELS,
            help=f"What happens to transfers {direction.replace('_', ' ')} alone.",
        )
        for direction in _DIRECTIONS
    ),
)

IMPLIED = {_FOR_ALL: tuple(spec.name for spec in GUARD_OPTIONS[1:])}
"""Options that set others too, to the same value."""


def is_guard(name: str) -> bool:
    """Return whether an option is a transfer guard's."""
    return name.startswith(_FOR_ALL)


def names_a_guard(variables: Iterable[str]) -> bool:
    """Return whether an environment variable is the option of a transfer guard."""
    return any(
        is_guard(variable.lower().removeprefix("devrt_").removeprefix("jax_"))
        for variable in variables
    )
