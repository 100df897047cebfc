"""What a client asks of the objects that join it to the other processes of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from devrt.contract.client import Client

__all__ = ["CpuCollectives", "DistributedRuntimeClient", "TransferServerInterfaceFactory"]


class DistributedRuntimeClient(Protocol):
    """One process's connection to the cluster's key-value store.

    Any object with these methods will do. A deadline that passes is raised as `TimeoutError`, or
    as an error whose ``code`` or text says DEADLINE_EXCEEDED.
    """

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> Any:
        """Make a value known to every process under a key."""

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> Any:
        """Return the value of a key, as text or bytes; wait for it to be set."""

    def wait_at_barrier(
        self, barrier_id: str, timeout_in_ms: int, process_ids: list[int] | None = None
    ) -> Any:
        """Wait until every process, or every one named, has come here."""


class CpuCollectives(Protocol):
    """How the processes of a cluster exchange the host's data within one program."""

    def make_communicator(self, process_ids: Sequence[int]) -> Any:
        """Return a connection among these processes, of which this one is one."""


class TransferServerInterfaceFactory(Protocol):
    """Makes what moves buffers between processes outside programs."""

    def __call__(self, client: Client) -> Any:
        """Return the transfer server of a client."""
