"""What follows when a client was closed, whatever backend it is of."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from devrt._support import caches

__all__ = ["Closing"]


class Closing:
    """Has a subclass's ``close`` end with devrt's programs of the client, which would keep it."""

    def __init_subclass__(cls, **given: Any) -> None:
        super().__init_subclass__(**given)
        close = vars(cls).get("close")
        if callable(close):
            cls.close = _and_forget(close)  # type: ignore[attr-defined]


def _and_forget(close: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(close)
    def close_and_forget(*given: Any, **named: Any) -> None:
        close(*given, **named)
        caches.forget_closed()

    return close_and_forget
