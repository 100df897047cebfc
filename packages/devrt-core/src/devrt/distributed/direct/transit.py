"""What connections keep of messages that are under way, and its bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Transit"]

_Connection = TypeVar("_Connection")


class Transit(Generic[_Connection]):
    """Bytes by connection: beyond the limit, the connection whose message began first is ended.

    Parameters
    ----------
    limit
        How many bytes there may be in all.
    end
        Ends a connection.
    """

    def __init__(self, limit: int, end: Callable[[_Connection], object]) -> None:
        self._limit = limit
        self._end = end
        self._held: dict[_Connection, int] = {}  # the oldest first
        self.total = 0

    def note(self, connection: _Connection, held: int) -> None:
        """Take how many bytes a connection keeps now; a message has ended where there are none."""
        self.total += held - self._held.get(connection, 0)
        if held:
            self._held[connection] = held
        else:
            self._held.pop(connection, None)
        while self.total > self._limit:
            oldest = next(iter(self._held))
            self.total -= self._held.pop(oldest)
            self._end(oldest)
