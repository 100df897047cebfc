"""Services and clients under jaxlib's names and keywords."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from devrt.distributed.aborting import aborting
from devrt.distributed.arguments import callback, file, flag, instance, seconds
from devrt.distributed.client import DistributedRuntimeClient, Times
from devrt.distributed.cluster import Limits
from devrt.distributed.security import Bounds, given_security

if TYPE_CHECKING:
    from devrt.distributed.services import AnyService

__all__ = ["get_distributed_runtime_client", "get_distributed_runtime_service"]


def get_distributed_runtime_service(
    address: str,
    num_nodes: int,
    heartbeat_timeout: float | None = None,
    cluster_register_timeout: float | None = None,
    shutdown_timeout: float | None = None,
    recoverable: bool | None = None,
    *,
    allow_remote: bool = False,
    token: str | None = None,
    mtls_cert_file: str | None = None,
    mtls_key_file: str | None = None,
    mtls_ca_file: str | None = None,
    mtls_peer_uri_prefix: str | None = None,
    verify_secure_credentials: bool | None = None,
    etcd_user: str | None = None,
    etcd_password: str | None = None,
    bounds: Bounds | None = None,
    journal: str | os.PathLike[str] | None = None,
) -> AnyService:
    """Start the coordination service of a cluster, in a thread of this process.

    Parameters
    ----------
    address
        ``host:port``; port 0 takes one that is free. ``etcd://host:port,.../prefix`` begins a job
        in etcd, which goes on without this process; ``jaxlib://host:port`` starts jaxlib's service.
    num_nodes
        How many processes the cluster has.
    heartbeat_timeout
        Seconds without a heartbeat after which a process counts as lost; 100 when omitted.
    cluster_register_timeout
        Seconds that the first process waits for the last; 3600 when omitted.
    shutdown_timeout
        Seconds that a process which shuts down waits for the others; 300 when omitted.
    recoverable
        Whether the job goes on when a process is lost, and that one may come again.
    allow_remote
        Whether an address that other machines reach may be used: with mTLS or a token alone.
    token
        A secret that every process has to give.
    mtls_cert_file, mtls_key_file, mtls_ca_file
        Certificate and key of the service, and who signs the clients'; read again as they change.
    mtls_peer_uri_prefix
        What a URI in a client's certificate must begin with.
    verify_secure_credentials
        Whether no certificates are an error.
    etcd_user, etcd_password
        The user of an etcd that asks for one; else ``DEVRT_ETCD_USER`` and ``DEVRT_ETCD_PASSWORD``.
    bounds
        What one process may take up of the service: sizes, calls per second, bytes.
    journal
        A file in which the service at ``host:port`` keeps the job. Where it dies, another with the
        same address and journal carries on, and the processes wait for it for a heartbeat.

    Returns
    -------
    DistributedRuntimeService, StoredService or JaxlibService
        It listens; ``address`` is where.

    Raises
    ------
    InvalidArgumentError
        If the address is none, or could be reached from other machines without protection.
    DistributedError
        If it cannot listen there, or gRPC is not installed.
    """
    from devrt.distributed.services import begun  # asyncio, which clients do without

    limits = Limits(
        heartbeat=_given(heartbeat_timeout, 100, "heartbeat_timeout"),
        register=_given(cluster_register_timeout, 3600, "cluster_register_timeout"),
        shutdown=_given(shutdown_timeout, 300, "shutdown_timeout"),
    )
    security = given_security(
        mtls_cert_file,
        mtls_key_file,
        mtls_ca_file,
        mtls_peer_uri_prefix,
        token,
        verify_secure_credentials,
        etcd_user,
        etcd_password,
    )
    return begun(
        address,
        num_nodes,
        limits,
        _flag(recoverable, "recoverable"),
        flag(allow_remote, "allow_remote"),
        security,
        bounds if bounds is None else instance(bounds, Bounds, "bounds"),
        file(journal, "journal"),
    )


def get_distributed_runtime_client(
    address: str,
    node_id: int,
    rpc_timeout: float | None = None,
    init_timeout: float | None = None,
    shutdown_timeout: float | None = None,
    heartbeat_timeout: float | None = None,
    missed_heartbeat_callback: Callable[[Exception], Any] | None = None,
    shutdown_on_destruction: bool | None = None,
    use_compression: bool | None = None,
    recoverable: bool | None = None,
    *,
    abort_on_loss: bool = False,
    token: str | None = None,
    mtls_cert_file: str | None = None,
    mtls_key_file: str | None = None,
    mtls_ca_file: str | None = None,
    mtls_peer_uri_prefix: str | None = None,
    verify_secure_credentials: bool | None = None,
    etcd_user: str | None = None,
    etcd_password: str | None = None,
) -> DistributedRuntimeClient:
    """Make the client of one process; ``connect`` joins the cluster.

    Parameters
    ----------
    address
        The service's ``host:port``, devrt's or jaxlib's, or ``etcd://host:port,.../prefix``.
    node_id
        This process's number in the cluster, from 0.
    rpc_timeout
        Seconds that a call which does not wait for others may take; 120 when omitted.
    init_timeout
        Seconds that ``connect`` waits for the service and the other processes; 300 when omitted.
    shutdown_timeout
        Seconds that ``shutdown`` waits for the other processes; 300 when omitted.
    heartbeat_timeout
        Seconds without the service after which it counts as lost; 100 when omitted.
    missed_heartbeat_callback
        Called once, on a thread of the client, with the error when a process or the service is
        lost.
    shutdown_on_destruction
        Whether the client shuts down when it is deleted, or Python ends; not, when omitted.
    use_compression
        Whether messages are compressed.
    recoverable
        Taken as jaxlib's is; the service decides.
    abort_on_loss
        Whether this process ends by SIGABRT when a process or the service is lost, as with jaxlib;
        the callback is called first.
    token
        The secret of the service.
    mtls_cert_file, mtls_key_file, mtls_ca_file
        Certificate and key of this process, and who signs the service's.
    mtls_peer_uri_prefix
        Taken as jaxlib's is, and not checked: clients know the service by its host's name.
    verify_secure_credentials
        Whether no certificates are an error.
    etcd_user, etcd_password
        The user of an etcd that asks for one; else ``DEVRT_ETCD_USER`` and ``DEVRT_ETCD_PASSWORD``.

    Returns
    -------
    DistributedRuntimeClient
        Not connected yet.
    """
    times = Times(
        rpc=_given(rpc_timeout, 120, "rpc_timeout"),
        connect=_given(init_timeout, 300, "init_timeout"),
        shutdown=_given(shutdown_timeout, 300, "shutdown_timeout"),
        heartbeat=_given(heartbeat_timeout, 100, "heartbeat_timeout"),
    )
    files = (mtls_cert_file, mtls_key_file, mtls_ca_file)
    # The prefix is taken as jaxlib's is: it is the service that checks one.
    security = given_security(
        *files, None, token, verify_secure_credentials, etcd_user, etcd_password
    )
    on_loss = callback(missed_heartbeat_callback, "missed_heartbeat_callback")
    _flag(recoverable, "recoverable")
    return DistributedRuntimeClient(
        address,
        node_id,
        times,
        security,
        aborting(on_loss) if flag(abort_on_loss, "abort_on_loss") else on_loss,
        _flag(shutdown_on_destruction, "shutdown_on_destruction"),
        _flag(use_compression, "use_compression"),
    )


def _given(value: float | None, default: float, name: str) -> float:
    return default if value is None else seconds(value, name)


def _flag(value: bool | None, name: str) -> bool:
    return False if value is None else flag(value, name)
