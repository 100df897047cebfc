"""Ending a process when its job has lost one, for those who want that."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["aborting"]


def aborting(on_loss: Callable[[Exception], Any] | None) -> Callable[[Exception], None]:
    """Return a function that reports a loss, and aborts."""

    def report_and_abort(error: Exception) -> None:
        try:
            if on_loss is not None:
                on_loss(error)
        finally:
            sys.stderr.write(f"devrt: this process aborts: {error}\n")
            sys.stderr.flush()
            os.abort()

    return report_and_abort
