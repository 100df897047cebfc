"""A key-value store for the processes of a case, as `devrt.contract.DistributedRuntimeClient`."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

__all__ = ["METHODS", "Store"]

METHODS = ("key_value_set", "blocking_key_value_get", "wait_at_barrier")


class Store:
    """Keys and values, with waiting; any number of threads may use it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: dict[str, str] = {}

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        """Set a key that is not there yet."""
        with self._changed:
            if key in self._values and not allow_overwrite:
                msg = f"ALREADY_EXISTS: {key}"
                raise KeyError(msg)
            self._values[key] = value
            self._changed.notify_all()

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """Return a key's value, once it is there."""
        with self._changed:
            if not self._changed.wait_for(lambda: key in self._values, timeout_in_ms / 1000):
                msg = f"DEADLINE_EXCEEDED: {key} after {timeout_in_ms} ms"
                raise TimeoutError(msg)
            return self._values[key]

    def wait_at_barrier(
        self, barrier_id: str, timeout_in_ms: int, process_ids: Iterable[int] | None = None
    ) -> None:
        """Wait until the processes that are named have set their keys below the barrier's."""
        deadline = time.monotonic() + timeout_in_ms / 1000
        for process in process_ids or ():
            left = max(0, round((deadline - time.monotonic()) * 1000))
            self.blocking_key_value_get(f"{barrier_id}/{process}", left)
