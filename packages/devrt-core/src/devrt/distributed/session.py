"""What an engine does for one process of a job; the client is the same over all."""

from __future__ import annotations

import abc
from collections.abc import Sequence

__all__ = ["Session"]


class Session(abc.ABC):
    """One process's part in a job. Any thread may call any method."""

    @abc.abstractmethod
    def join(self, seconds: float, size: int | None = None) -> None:
        """Join; return when every process has. A job of another size is refused."""

    @abc.abstractmethod
    def leave(self, seconds: float) -> None:
        """Leave when every process that is alive does, and close. Idempotent."""

    @abc.abstractmethod
    def close(self) -> None:
        """End without a word to the others. Idempotent."""

    @abc.abstractmethod
    def awaited(self, key: str, seconds: float) -> bytes:
        """Return a key's value, once it is there."""

    @abc.abstractmethod
    def get(self, key: str) -> bytes:
        """Return a key's value; ``NOT_FOUND`` if it is not there."""

    @abc.abstractmethod
    def set(self, key: str, value: bytes, overwrite: bool) -> None:
        """Set a key; without ``overwrite`` one that is there is ``ALREADY_EXISTS``."""

    @abc.abstractmethod
    def directory(self, key: str) -> list[tuple[str, bytes]]:
        """Return the keys below one and their values, by key."""

    @abc.abstractmethod
    def delete(self, key: str) -> None:
        """Delete a key and every key below it."""

    @abc.abstractmethod
    def increment(self, key: str, by: int) -> int:
        """Add to a key's number, which begins at 0; return the sum."""

    @abc.abstractmethod
    def barrier(self, name: str, seconds: float, processes: Sequence[int]) -> None:
        """Wait until every process, or every one given, has come."""

    @abc.abstractmethod
    def alive(self, processes: Sequence[int]) -> dict[int, int]:
        """Return those of some processes that are alive, and the incarnation of each."""
