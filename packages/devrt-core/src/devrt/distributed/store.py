"""What the coordination of a cluster needs of a key-value store, and nothing more."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from dataclasses import dataclass

__all__ = ["Entry", "Lease", "Store", "Watch"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value; of a watch, what it has become.

    Parameters
    ----------
    key
        The key.
    value
        Its bytes; None where the key was deleted or its lease ended.
    version
        The store's counter at the change: later changes have higher ones.
    """

    key: str
    value: bytes | None
    version: int


class Watch(abc.ABC):
    """A subscription to changes."""

    @abc.abstractmethod
    def close(self) -> None:
        """End it. Idempotent."""


class Lease(abc.ABC):
    """A lifetime that keys are bound to: they are deleted where nobody renews it.

    Attributes
    ----------
    number : int
        What other processes know it by.
    """

    number: int

    @abc.abstractmethod
    def renew(self) -> None:
        """Begin its time anew.

        Raises
        ------
        DistributedError
            With the code ``NOT_FOUND`` if it has ended.
        """

    @abc.abstractmethod
    def revoke(self) -> None:
        """End it now, and with it its keys. Idempotent."""


class Store(abc.ABC):
    """Keys and bytes that the processes of a cluster share.

    Each method is atomic, and what it acknowledged stays. Any thread may call any method.
    """

    @abc.abstractmethod
    def get(self, key: str) -> Entry | None:
        """Return a key's entry; None if it is not there."""

    @abc.abstractmethod
    def range(self, prefix: str) -> list[Entry]:
        """Return the entries whose keys begin so, by key."""

    @abc.abstractmethod
    def count(self, prefix: str) -> int:
        """Return how many keys begin so."""

    @abc.abstractmethod
    def set(self, key: str, value: bytes, lease: Lease | None = None) -> int:
        """Set a key, whether it is there or not; return the version."""

    @abc.abstractmethod
    def delete(self, key: str, prefix: bool = False) -> int:
        """Delete a key, or all that begin so; return how many there were."""

    @abc.abstractmethod
    def increment(self, key: str, by: int = 1, lease: Lease | None = None) -> int:
        """Add to the number in a key's decimal text, from 0 where it is not there; return the sum.

        Parameters
        ----------
        key
            The key.
        by
            What is added.
        lease
            What the key is bound to from now on.

        Raises
        ------
        DistributedError
            With the code ``FAILED_PRECONDITION`` if the value is no number.
        """

    @abc.abstractmethod
    def transaction(
        self,
        expected: Mapping[str, int],
        changes: Mapping[str, bytes | None],
        lease: Lease | None = None,
    ) -> bool:
        """Make all changes if every expected key has its version, else none; return which.

        Parameters
        ----------
        expected
            Versions by key; 0 means that the key is not there.
        changes
            Values by key; None deletes.
        lease
            What the keys that are set are bound to.
        """

    @abc.abstractmethod
    def watch(self, key: str, on_change: Callable[[Entry], object], prefix: bool = False) -> Watch:
        """Call a function with each change of a key, or of all that begin so, from now on.

        The function must return at once, and may be called on any thread.
        """

    @abc.abstractmethod
    def lease(self, seconds: float) -> Lease:
        """Return a new lease that ends after so long without being renewed."""

    @abc.abstractmethod
    def shared_lease(self, number: int, seconds: float) -> Lease:
        """Return a lease that another process made, to renew it too."""

    @abc.abstractmethod
    def close(self) -> None:
        """End watches and connections; the keys stay. Idempotent."""
