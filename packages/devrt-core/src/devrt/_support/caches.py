"""What devrt keeps only to be faster the next time, wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["clear_all", "register"]

_clears: list[Callable[[], None]] = []


def register(clear: Callable[[], None]) -> Callable[[], None]:
    """Have a function called when caches are cleared; returns it, so that it decorates."""
    _clears.append(clear)
    return clear


def clear_all() -> None:
    """Clear every cache."""
    for clear in _clears:
        clear()
