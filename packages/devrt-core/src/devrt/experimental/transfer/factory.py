"""Transfer servers for clients that are being made, which find each other by their processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from devrt.contract import Client, DistributedRuntimeClient
from devrt.experimental.transfer.server import TransferServer, start_transfer_server

__all__ = ["make_transfer_server_interface_factory"]


def make_transfer_server_interface_factory(
    transfer_size: int = 256 << 20,
    cross_host_transfer_timeout_seconds: float = 60,
    distributed_client: DistributedRuntimeClient | None = None,
    socket_address: str = "localhost:0",
    transport_addresses: Sequence[str] = (),
    **security: Any,
) -> Callable[[Client], TransferServer]:
    """Return what ``transfer_server_factory`` of the functions that make clients takes.

    Parameters
    ----------
    transfer_size, transport_addresses
        As for `start_transfer_server`.
    cross_host_transfer_timeout_seconds
        How long a pull without a timeout waits for the offer, and ``connect`` for the address of
        the other process's server.
    distributed_client
        The connection to the job's key-value store, by which the processes find each other's
        servers: ``connect`` takes a process's number. The client's own when omitted.
    socket_address
        ``host:port`` to listen at.
    **security
        ``allow_remote``, ``token``, the mTLS files and ``bounds``, as for `start_transfer_server`.

    Returns
    -------
    callable
        Makes the transfer server of a client; `devrt.contract.transfer_server_of` returns it.
    """
    seconds = cross_host_transfer_timeout_seconds
    start: Any = partial(
        start_transfer_server,
        address=socket_address,
        transport_addresses=transport_addresses,
        transfer_size=transfer_size,
        offer_timeout=seconds,
        **security,
    )

    def make(client: Client) -> TransferServer:
        server: TransferServer = start(client)
        job = distributed_client or getattr(client, "distributed_client", None)
        if job is not None:
            _publish(server, job, client, seconds)
        return server

    return make


def _publish(
    server: TransferServer, job: DistributedRuntimeClient, client: Client, seconds: float
) -> None:
    folder = f"devrt/transfer_servers/{client.platform}"

    def address_of(process: int) -> str:
        found = job.blocking_key_value_get(f"{folder}/{process}", round(seconds * 1000))
        return found.decode() if isinstance(found, bytes) else str(found)

    try:
        job.key_value_set(f"{folder}/{client.process_index()}", server.address(), True)
    except BaseException:
        server.close()
        raise
    server.find_processes_by(address_of)
