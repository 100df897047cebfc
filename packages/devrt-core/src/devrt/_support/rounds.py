"""How often something was agreed on through a store of keys: a later time uses other keys."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterator
from typing import Any

__all__ = ["next_round"]


class _Rounds:
    """Counts the exchanges of each store, so that a later one does not read an earlier's keys.

    Programs make their clients and groups in the same order in every process: the counts agree.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counters: weakref.WeakKeyDictionary[Any, dict[str, Iterator[int]]]
        self._counters = weakref.WeakKeyDictionary()

    def next_of(self, store: object, scope: str) -> int:
        try:
            with self._lock:
                scopes = self._counters.setdefault(store, {})
                return next(scopes.setdefault(scope, itertools.count()))
        except TypeError:  # neither hashable nor weakly referenced: keys are overwritten instead
            return 0


_ROUNDS = _Rounds()


def next_round(store: object, scope: str) -> int:
    """Return how often a scope of a store was counted before; 0 for a store that has no hash."""
    return _ROUNDS.next_of(store, scope)
