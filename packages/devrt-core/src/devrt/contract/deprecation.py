"""Deprecated names of the plugin contract, and the warning for a plugin that uses one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["DEPRECATED", "Deprecation", "warn_of_use"]


class Deprecation(NamedTuple):
    """What is known of a deprecated name.

    Attributes
    ----------
    since : str
        The contract from which on it is deprecated: a minor version.
    gone : str
        The contract that no longer has it: the next major version, two minor ones later or more.
    instead : str
        What to use, as an imperative clause: ``"define process_index"``.
    """

    since: str
    gone: str
    instead: str


DEPRECATED: dict[str, Deprecation] = {}
"""By name: a member (``"Client.task_id"``), a record's field (``"ClientFactory.describe"``), a hook
(``"devrt_doctor_findings"``) or a public name (``"devrt.layout.row_major"``)."""


def warn_of_use(names: Iterable[str], user: object) -> None:
    """Warn of each deprecated name among those that a plugin, or a class of one, uses."""
    for name in names if DEPRECATED else ():
        if (found := DEPRECATED.get(name)) is None:
            continue
        from devrt._support.warn import warn
        from devrt.errors import ContractDeprecationWarning

        msg = (
            f"{user} uses {name}, which is deprecated since plugin contract {found.since} and goes "
            f"with {found.gone}: {found.instead}."
        )
        warn(msg, ContractDeprecationWarning)
