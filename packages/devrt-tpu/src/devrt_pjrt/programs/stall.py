"""How long a call waits for the programs before it, whose donated arguments are not free yet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from devrt.errors import DeadlineExceededError
from devrt_pjrt._native import lib

__all__ = ["Stall"]

_STALLED = 600.0
"""Seconds without the end of a program that took donated arguments, for which a call waits."""


class Stall:
    """For how long no program that took donated arguments has ended."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._ended, self._since = lib.devrt_core_settled(core), time.monotonic()

    def check(self, label: str, devices: Sequence[Any]) -> None:
        """Raise where that is too long."""
        now, ended = time.monotonic(), lib.devrt_core_settled(self._core)
        if ended != self._ended:
            self._ended, self._since = ended, now
        if now - self._since >= _STALLED:
            names = ", ".join(map(str, devices))
            msg = (
                f"execute failed: {label} waited on {names} for the programs before it, whose "
                f"donated arguments are not free yet: none has ended for {now - self._since:.0f} "
                "seconds. Find the one that does not end."
            )
            raise DeadlineExceededError(msg, operation="execute")
