"""What a client asks of the objects that join it to the other processes of a cluster."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from devrt._support.record import record

if TYPE_CHECKING:
    from devrt.contract.client import Client

__all__ = [
    "CpuCollectives",
    "DistributedRuntimeClient",
    "Job",
    "TransferServerInterfaceFactory",
    "options_with_job",
    "transfer_server_of",
    "with_transfer_server",
]


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


@record(frozen=True, slots=True)
class Job:
    """The job of several processes that this one has joined.

    Attributes
    ----------
    client : DistributedRuntimeClient
        The connection to its key-value store.
    process_id, num_processes : int
        Which of how many processes this is.
    compare : callable or None
        Returns the processes that have other bytes in a dense array than this one; it is given the
        operation's name and the array, and every process calls it, in the same order.
    partition_index : int or None
        Which partition of the job's GPUs this process's are in, where the user gives it.
    """

    client: DistributedRuntimeClient
    process_id: int
    num_processes: int
    compare: Callable[[str, Any], list[int]] | None = None
    partition_index: int | None = None

    def options(self) -> dict[str, Any]:
        """Return what clients take: ``distributed_client``, ``node_id``, ``num_nodes``.

        ``partition_index`` is there where the user gave one.
        """
        options: dict[str, Any] = {
            "distributed_client": self.client,
            "node_id": self.process_id,
            "num_nodes": self.num_processes,
        }
        if self.partition_index is not None:
            options["partition_index"] = self.partition_index
        return options


def options_with_job(options: Mapping[str, Any], job: Job | None) -> dict[str, Any]:
    """Return what a client factory is given, with the options that say who is in its job."""
    return {**options, **({} if job is None else job.options())}


class CpuCollectives(Protocol):
    """How the processes of a cluster exchange the host's data within one program."""

    def make_communicator(self, process_ids: Sequence[int], rank: int) -> Any:
        """Return a connection among these processes, of which this one is number ``rank``.

        It is a `devrt.contract.Collectives` in which each process is one rank, in their order.
        """


class TransferServerInterfaceFactory(Protocol):
    """Makes what moves buffers between processes outside programs."""

    def __call__(self, client: Client) -> Any:
        """Return the transfer server of a client."""


_servers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def with_transfer_server(client: Client, factory: TransferServerInterfaceFactory | None) -> Client:
    """Return a client that was just made, with the transfer server that a factory makes for it.

    The server is kept as long as the client lives. Where the factory fails, the client is closed,
    and what it raised goes on.
    """
    if factory is not None:
        try:
            _servers[client] = factory(client)
        except BaseException:
            client.close()
            raise
    return client


def transfer_server_of(client: Client) -> Any:
    """Return the transfer server that a client was made with, or None."""
    return _servers.get(client)
