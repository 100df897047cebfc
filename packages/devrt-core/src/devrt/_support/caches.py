"""What devrt keeps only to be faster the next time, wherever it is kept."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["clear_all", "forget_closed", "register", "register_of_clients"]

_clears: list[Callable[[], None]] = []
_forgets: list[Callable[[], None]] = []


def register(clear: Callable[[], None]) -> Callable[[], None]:
    """Have a function called when caches are cleared; returns it, so that it decorates."""
    _clears.append(clear)
    return clear


def clear_all() -> None:
    """Clear every cache."""
    for clear in _clears:
        clear()


def register_of_clients(forget: Callable[[], None]) -> Callable[[], None]:
    """Have a function called when a client was closed, to drop what is of closed clients."""
    _forgets.append(forget)
    return forget


def forget_closed() -> None:
    """Drop what caches hold of closed clients: a program keeps its client's compiler and threads.

    Every client's ``close`` ends with it: `Client` of the contract sees to that, and the native
    clients call it themselves.
    """
    for forget in list(_forgets):
        forget()
