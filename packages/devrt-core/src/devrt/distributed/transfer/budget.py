"""Memory that many threads share, up to a limit."""

from __future__ import annotations

from threading import Condition

from devrt.distributed.faults import refused
from devrt.errors import StatusCode

__all__ = ["Budget"]


class Budget:
    """Bytes that threads take and give back.

    Parameters
    ----------
    limit
        How many may be taken at a time. One thread alone may take more.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._changed = Condition()

    def take(self, size: int, seconds: float) -> None:
        """Take bytes; wait until there are so many.

        Raises
        ------
        DistributedError
            Others had them for so many seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._has(size), seconds):
                words = (
                    f"{size} bytes cannot be copied for another process, as {self._used} of "
                    f"{self._limit} are in use. Pull less at a time."
                )
                raise refused(StatusCode.RESOURCE_EXHAUSTED, words)
            self._used += size

    def give_back(self, size: int) -> None:
        """Let others have the bytes."""
        with self._changed:
            self._used -= size
            self._changed.notify_all()

    def _has(self, size: int) -> bool:
        return not size or not self._used or self._used + size <= self._limit
