"""The end of a program on one device, as something to wait for."""

from __future__ import annotations

from devrt.contract import ExecutionToken
from devrt_pjrt.connection.event import Event
from devrt_pjrt.library.handle import Handle

__all__ = ["PjrtToken"]


class PjrtToken(Handle, ExecutionToken):
    """Says when a program has ended on one device; it may outlive the program and the client.

    Parameters
    ----------
    ended
        The plugin's event.
    """

    def __init__(self, ended: Event) -> None:
        self._ended = ended

    def is_ready(self) -> bool:
        """Return whether the program has ended."""
        return self._ended.is_ready()

    def block_until_ready(self) -> None:
        """Wait until the program has ended; raises the error that it failed with."""
        self._ended.wait("block_until_ready")
