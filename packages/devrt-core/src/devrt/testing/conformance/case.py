"""A case: one thing that the contract asks of a backend, and the function that sees to it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from devrt.errors import InvalidArgumentError

if TYPE_CHECKING:
    from devrt.testing.conformance.subject import Subject

__all__ = ["LEVELS", "Case", "case", "check_level"]

LEVELS = ("load", "memory", "transfer", "execute", "shard", "distributed", "c_api")
"""The levels, in the order in which they run; the last one is of PJRT libraries alone."""


def check_level(level: str | None) -> None:
    """Refuse a level that there is not; None stands for all of them."""
    if level is not None and level not in LEVELS:
        msg = f"there is no level {level!r}; levels: {', '.join(LEVELS)}."
        raise InvalidArgumentError(msg, level=level)


Check = Callable[["Subject"], str | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Case:
    """One thing that the contract asks of a backend.

    Attributes
    ----------
    name : str
        The name of the function; with the level it is the case's `id`.
    level : str
        One of `LEVELS`.
    title : str
        What a right backend does, as a clause.
    contract : str
        Where the contract asks for it: a name of `devrt.contract` or of its pages.
    check : callable
        Takes a `devrt.testing.conformance.Subject`. Returns if the backend is right, with figures
        for the report where it has measured any, and else raises as
        `devrt.testing.conformance.expect` does.
    deadline : float
        Seconds after which the case has failed.
    alone : bool
        Whether it has a child process of its own, as it spoils one or needs a fresh one.
    """

    name: str
    level: str
    title: str
    contract: str
    check: Check
    deadline: float = 30.0
    alone: bool = False

    @property
    def id(self) -> str:
        """``level.name``."""
        return f"{self.level}.{self.name}"


def case(
    level: str, title: str, *, contract: str, deadline: float = 30.0, alone: bool = False
) -> Callable[[Check], Case]:
    """Make a case of a function, whose name is the case's; the fields are those of `Case`."""
    if level not in LEVELS:
        msg = f"there is no level {level!r}; levels: {', '.join(LEVELS)}"
        raise ValueError(msg)

    def made(check: Check) -> Case:
        # Without the full stop of a sentence: reports go on after it.
        return Case(check.__name__, level, title, contract.rstrip("."), check, deadline, alone)

    return made
