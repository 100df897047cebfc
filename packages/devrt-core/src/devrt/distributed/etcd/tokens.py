"""The token by which etcd knows a user: requested when it is needed, and again when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

from devrt._support.record import record

__all__ = ["Login", "Metadata", "Tokens", "is_of_token"]

Metadata = tuple[tuple[str, str], ...]

# In the words of etcd's errors: the token has ended or was of a member that was started again;
# users or roles have changed; users are known since a moment ago.
_STALE = ("invalid auth token", "revision of auth store is old", "user name is empty")


@record(frozen=True, slots=True)
class Login:
    """A user of etcd.

    Parameters
    ----------
    user, password
        As etcd has them.
    """

    user: str
    password: str


class Tokens:
    """The token of one user, which all calls have; any thread may call any method.

    Parameters
    ----------
    ask
        Returns a new token of the member with a number; empty where etcd knows no users.
    """

    def __init__(self, ask: Callable[[int], str]) -> None:
        self._ask = ask
        self._lock = threading.Lock()
        self._token: str | None = None

    def metadata(self, member: int) -> Metadata:
        """Return what a call has with it; a member gives one where there is none yet."""
        with self._lock:
            if self._token is None:
                self._token = self._ask(member)
            return (("token", self._token),) if self._token else ()

    def drop(self, refused: Metadata) -> None:
        """Use a token no more that was refused; another's call may have a new one already."""
        with self._lock:
            if refused == ((("token", self._token),) if self._token else ()):
                self._token = None


def is_of_token(details: str) -> bool:
    """Return whether an error of etcd says that another token is needed."""
    return any(words in details for words in _STALE)
