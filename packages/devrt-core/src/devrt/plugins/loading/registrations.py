"""What a plugin's ``initialize()`` registers by calls, collected on behalf of that plugin."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

from devrt.plugins.loading.libraries import LibraryBackend
from devrt.records import ClientFactory, TopologyFactory

__all__ = ["Registrations", "collect_registrations", "current_registrations"]


class Registrations:
    """The records that one ``initialize()`` registered, in order."""

    def __init__(self) -> None:
        self.clients: list[ClientFactory] = []
        self.topologies: list[TopologyFactory] = []
        self.libraries: list[LibraryBackend] = []


_current: contextvars.ContextVar[Registrations | None] = contextvars.ContextVar(
    "devrt_registrations", default=None
)


def current_registrations() -> Registrations | None:
    """Return where registrations go while a plugin is loaded in this thread; else None."""
    return _current.get()


@contextlib.contextmanager
def collect_registrations() -> Iterator[Registrations]:
    """Collect what is registered within the ``with`` block, instead of registering it."""
    found = Registrations()
    token = _current.set(found)
    try:
        yield found
    finally:
        _current.reset(token)
