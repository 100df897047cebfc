"""What the child of a fork has of its parent's job: nothing, as the connections are the parent's.

A child that used them would take answers that are its parent's, and one that ends would leave the
job in its parent's name.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import NoReturn, Protocol

from devrt.distributed.faults import refused
from devrt.distributed.session import Session
from devrt.errors import StatusCode

__all__ = ["ForkedSession", "renounced_by_children"]


class _OfParent(Protocol):
    def renounce(self) -> None:
        """Give up what is the parent's."""


_kept: weakref.WeakSet[_OfParent] = weakref.WeakSet()


def renounced_by_children(thing: _OfParent) -> None:
    """Have a child of a fork call an object's ``renounce`` before anything else."""
    _kept.add(thing)


class ForkedSession(Session):
    """A parent's part in a job, in its child: calls are refused, and the end is nobody's."""

    def __init__(self) -> None:
        self._parent = os.getppid()

    def join(self, seconds: float, size: int | None = None) -> None:
        """Refuse."""
        self._refuse()

    def leave(self, seconds: float) -> None:
        """Do nothing: the parent is still there."""

    def close(self) -> None:
        """Do nothing."""

    def awaited(self, key: str, seconds: float) -> bytes:
        """Refuse."""
        self._refuse()

    def get(self, key: str) -> bytes:
        """Refuse."""
        self._refuse()

    def set(self, key: str, value: bytes, overwrite: bool) -> None:
        """Refuse."""
        self._refuse()

    def directory(self, key: str) -> list[tuple[str, bytes]]:
        """Refuse."""
        self._refuse()

    def delete(self, key: str) -> None:
        """Refuse."""
        self._refuse()

    def increment(self, key: str, by: int) -> int:
        """Refuse."""
        self._refuse()

    def barrier(self, name: str, seconds: float, processes: Sequence[int]) -> None:
        """Refuse."""
        self._refuse()

    def alive(self, processes: Sequence[int]) -> dict[int, int]:
        """Refuse."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        words = (
            f"this process is a fork of process {self._parent} of the system, which is the one "
            "that joined the job. Use the job there, or start this process anew (spawn)."
        )
        raise refused(StatusCode.FAILED_PRECONDITION, words)


def _renounce() -> None:
    for thing in list(_kept):
        thing.renounce()


if hasattr(os, "register_at_fork"):  # where the system has forks
    os.register_at_fork(after_in_child=_renounce)
