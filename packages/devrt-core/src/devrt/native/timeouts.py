"""How long a call of a GPU client may wait, checked also where it has nothing to wait for."""

from __future__ import annotations

import math
from typing import Any

from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["checked_milliseconds"]


def checked_milliseconds(timeout: Any) -> int:
    """Return a timeout of ``client.collectives`` in milliseconds.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If it is no number of seconds, or out of range.
    """
    try:
        seconds = math.fsum((timeout,))  # refuses text, which float() would read
    except (TypeError, OverflowError):
        msg = f"timeout must be a number of seconds, not {timeout!r}."
        raise InvalidTypeError(msg, operation="collectives") from None
    if not 0 < seconds <= 1e7:
        msg = f"timeout must be above 0 seconds and at most 10000000, not {timeout!r}."
        raise InvalidArgumentError(msg, operation="collectives")
    return max(1, round(seconds * 1000))
