"""A process's transfer server: offers arrays to others, and connects to theirs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from threading import Semaphore
from typing import Any

from devrt.contract import Client, Device
from devrt.distributed.arguments import flag, number, seconds, text
from devrt.distributed.security import Security, given_security
from devrt.distributed.transfer.offers import Offer
from devrt.distributed.transfer.pulling import Peer
from devrt.distributed.transfer.server import PullServer, TransferBounds
from devrt.errors import ClosedError, InvalidArgumentError, InvalidTypeError
from devrt.experimental.transfer.connection import TransferConnection, seconds_of
from devrt.experimental.transfer.offering import check_uuid, offered
from devrt.tree_util import tree_leaves

__all__ = ["TransferServer", "start_transfer_server"]

_STREAMS = 4


class TransferServer:
    """Offers arrays to other processes; made by `start_transfer_server`."""

    def __init__(
        self,
        client: Client,
        server: PullServer,
        security: Security,
        copies: int,
        stall: float,
        wait: float,
    ) -> None:
        self._addresses: Callable[[int], str] | None = None
        self._client = weakref.ref(client)
        self._server, self._security = server, security
        self._copies = Semaphore(copies)
        self._stall, self._wait = stall, wait
        self._close = weakref.finalize(client, server.close)

    def address(self) -> str:
        """Return where other processes connect to this one."""
        return self._server.address

    def find_processes_by(self, addresses: Callable[[int], str]) -> None:
        """Let `connect` take the number of a process, whose address a function returns."""
        self._addresses = addresses

    def connect(self, address: str | int) -> TransferConnection:
        """Return a connection to another process's server, with this server's security.

        Parameters
        ----------
        address
            What ``address()`` of the other server returns; or the number of a process of the job,
            where the servers were made by `make_transfer_server_interface_factory`.

        Returns
        -------
        TransferConnection
            Connects at its first pull.

        Raises
        ------
        InvalidArgumentError
            If it is no address, or a number and this server is in no job.
        """
        if not isinstance(address, str):
            address = self._address_of(address)
        peer = Peer(address, self._security, _STREAMS, self._stall)
        return TransferConnection(peer, self._device, self._wait)

    def await_pull(self, uuid: int, arrays: Any, timeout: Any = None) -> Offer:
        """Offer a tree of arrays, for one other process to pull.

        The arrays are kept until then. A pull that breaks off leaves them offered.

        Parameters
        ----------
        uuid
            A number that both processes know; it may be used again once this offer is over.
        arrays
            A tree of arrays. Of one that spans processes, the shards of this one are offered.
        timeout
            When the offer ends: a `datetime.datetime`, or seconds; with the server when omitted.

        Returns
        -------
        Offer
            To wait until the arrays are pulled, or to take them back.

        Raises
        ------
        DistributedError
            If another offer under the number stands.
        InvalidTypeError
            If a leaf is no array of devrt.
        ClosedError
            If the server is closed.
        """
        number, seconds = check_uuid(uuid), seconds_of(timeout)
        return self._server.offers.add(number, offered(tree_leaves(arrays), self._copies), seconds)

    @property
    def refused(self) -> int:
        """How many connections and requests of others were refused."""
        return self._server.refused

    def close(self) -> None:
        """End every offer, and every connection of others. Idempotent."""
        self._close()

    def __enter__(self) -> TransferServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _address_of(self, process: int) -> str:
        process = number(process, "address, which is no text,")
        if self._addresses is None:
            msg = (
                f"process {process!r} cannot be connected to by its number: this server is in no "
                "job. Pass the other server's address()."
            )
            raise InvalidArgumentError(msg, process=process)
        return self._addresses(process)

    def _device(self) -> Device:
        client = self._client()
        if client is None:
            raise ClosedError("the client of this transfer server is gone. Start another.")
        return client.local_devices()[0]


def start_transfer_server(
    client: Client,
    address: str = "localhost:0",
    transport_addresses: Sequence[str] = (),
    max_num_parallel_copies: int = 8,
    transfer_size: int = 256 << 20,
    supports_pinned_allocator: bool = False,
    use_raw_buffers: bool = False,
    *,
    allow_remote: bool = False,
    token: str | None = None,
    mtls_cert_file: str | None = None,
    mtls_key_file: str | None = None,
    mtls_ca_file: str | None = None,
    mtls_peer_uri_prefix: str | None = None,
    verify_secure_credentials: bool = False,
    offer_timeout: float = 60.0,
    bounds: TransferBounds | None = None,
) -> TransferServer:
    """Start what moves arrays between this process and others, in threads of this process.

    Parameters
    ----------
    client
        On whose first device arrays arrive for which no sharding is given.
    address
        ``host:port`` to listen at; port 0 takes one that is free.
    transport_addresses
        Further addresses, at each of which those that pull open a connection for elements. Without
        any they open up to 4 to ``address``.
    max_num_parallel_copies
        How many blocks are copied from devices to the host at a time.
    transfer_size
        The most bytes that one request may ask for.
    supports_pinned_allocator, use_raw_buffers
        Taken as jaxlib's are, and without effect: page-locked memory is used where there is some.
    allow_remote
        Whether an address that other machines reach may be used: with mTLS or a token alone.
    token
        A secret that both sides have to have.
    mtls_cert_file, mtls_key_file, mtls_ca_file
        Certificate and key of this process, and who signs the others'; read again as they change.
    mtls_peer_uri_prefix
        What a URI in the certificate of one that connects must begin with.
    verify_secure_credentials
        Whether no certificates are an error.
    offer_timeout
        Seconds that a pull without a timeout waits for the offer.
    bounds
        What others may take up of this process.

    Returns
    -------
    TransferServer
        It listens until it is closed, or the client is gone.

    Raises
    ------
    InvalidArgumentError
        If an address is none, or could be reached from other machines without protection.
    DistributedError
        If it cannot listen there.
    """
    copies = _positive(max_num_parallel_copies, "max_num_parallel_copies")
    most = _positive(transfer_size, "transfer_size")
    patience = seconds(offer_timeout, "offer_timeout")
    used = _checked(bounds or TransferBounds(), TransferBounds, "bounds")
    _checked(client, Client, "client")
    security = given_security(
        mtls_cert_file,
        mtls_key_file,
        mtls_ca_file,
        mtls_peer_uri_prefix,
        token,
        verify_secure_credentials,
        None,
        None,
    )
    addresses = [text(address, "address"), *_further(transport_addresses)]
    is_remote = flag(allow_remote, "allow_remote")
    server = PullServer(addresses, security, is_remote, used, most)
    return TransferServer(client, server, security, copies, used.stall_seconds, patience)


def _further(addresses: Any) -> list[str]:
    if isinstance(addresses, str) or not isinstance(addresses, Sequence):
        msg = f"transport_addresses must be a sequence of addresses, not {addresses!r}."
        raise InvalidTypeError(msg, argument="transport_addresses")
    return [text(one, "each of transport_addresses") for one in addresses]


def _positive(value: Any, name: str) -> int:
    found = number(value, name)
    if found < 1:
        msg = f"{name} must be positive, and is {found}."
        raise InvalidArgumentError(msg, operation="start_transfer_server")
    return found


def _checked(value: Any, kind: type[Any], name: str) -> Any:
    if not isinstance(value, kind):
        msg = f"{name} must be a {kind.__name__}, not of type {type(value).__name__}."
        raise InvalidTypeError(msg, argument=name)
    return value
