"""Collectives for the programs of a client, by jaxlib's names and by the configuration."""

from __future__ import annotations

import itertools
import socket
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from devrt.distributed.collectives.connecting import connect, connect_by, own_host
from devrt.distributed.collectives.host import HostCollectives
from devrt.distributed.collectives.mpi import MpiCollectives, mpi
from devrt.distributed.state import global_state
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.runtime import default_runtime

if TYPE_CHECKING:
    from devrt.contract import Client, CpuCollectives, DistributedRuntimeClient

__all__ = ["make_gloo_tcp_collectives", "make_mpi_collectives", "of_configuration"]

_OPTION = "cpu_collectives_implementation"
_NONE = "none"
_SCOPE = "programs"
_TIMEOUT = 300.0
_SIOCGIFADDR = 0x8915  # Linux: an interface's IPv4 address


class _OfJob:
    """Communicators of the job that this process has joined."""

    def __init__(self, engine: str | None) -> None:
        self._engine = engine

    def make_communicator(self, process_ids: Sequence[int], rank: int) -> HostCollectives:
        del rank  # the job knows
        made = connect(self._engine, name=_SCOPE, processes=process_ids, checks=False)
        global_state.communicators = (*global_state.communicators, made)
        return made


class GlooTcpCollectives:
    """Communicators over Gloo; see `make_gloo_tcp_collectives`."""

    def __init__(self, client: DistributedRuntimeClient, host: str) -> None:
        self._client = client
        self._host = host
        self._counts: dict[tuple[int, ...], itertools.count[int]] = {}

    def make_communicator(self, process_ids: Sequence[int], rank: int) -> HostCollectives:
        """Connect these processes, of which this one is number ``rank``."""
        members = tuple(process_ids)
        number = next(self._counts.setdefault(members, itertools.count()))
        name = f"{_SCOPE}/{'-'.join(map(str, members))}/{number}"
        made = connect_by(
            "gloo", self._client, rank, len(members), name, self._host, _TIMEOUT, True
        )
        if hasattr(self._client, "get_live_nodes"):
            made.watch(self._client, members, _TIMEOUT)
        return made


class MpiProgramCollectives:
    """Communicators over MPI; see `make_mpi_collectives`."""

    def Init(self) -> None:  # noqa: N802  jaxlib's name
        """Start MPI, where that was not done."""
        mpi()

    def Finalize(self) -> None:  # noqa: N802  jaxlib's name
        """End MPI; nothing of it can be used afterwards. Idempotent."""
        module = mpi()
        if not module.Is_finalized():
            module.Finalize()

    def make_communicator(self, process_ids: Sequence[int], rank: int) -> HostCollectives:
        """Connect these processes, of which this one is number ``rank``."""
        return MpiCollectives(rank, len(process_ids), _TIMEOUT, members=process_ids)


def make_gloo_tcp_collectives(
    distributed_client: DistributedRuntimeClient | None = None,
    hostname: str | None = None,
    interface: str | None = None,
) -> CpuCollectives:
    """Return collectives over Gloo, for `make_cpu_client`; nothing is connected yet.

    Parameters
    ----------
    distributed_client
        The connection to the job's keys, through which the processes find each other.
    hostname, interface
        The address of this process for the others, or the network interface that has it; by
        default the one on the way to the job's service.

    Raises
    ------
    InvalidArgumentError
        If there is no client, both a name and an interface, or no such interface.
    """
    if distributed_client is None:
        msg = (
            "make_gloo_tcp_collectives needs distributed_client: the processes find each other "
            "through the keys of their job."
        )
        raise InvalidArgumentError(msg, operation="make_gloo_tcp_collectives")
    if hostname is not None and interface is not None:
        msg = "make_gloo_tcp_collectives takes hostname or interface, not both. Leave one out."
        raise InvalidArgumentError(msg, operation="make_gloo_tcp_collectives")
    if interface is not None:
        hostname = _address_of(interface)
    return GlooTcpCollectives(
        distributed_client, hostname or own_host(global_state.coordinator_address)
    )


def make_mpi_collectives() -> MpiProgramCollectives:
    """Return collectives over MPI, for `make_cpu_client`; MPI starts at `Init`, or at first use."""
    return MpiProgramCollectives()


def of_configuration(client: Client) -> CpuCollectives:
    """Return the collectives for programs of a client that none were given to.

    Raises
    ------
    UnimplementedError
        If the client's process is in no job, or the configuration says that there are none.
    """
    engine: Any = default_runtime().config.read(_OPTION)
    job = global_state
    is_of_job = job.client is not None and job.process_id == client.process_index()
    if is_of_job and engine != _NONE:
        return _OfJob(engine)
    remedy = (
        f"Set {_OPTION} to 'gloo', 'mpi' or 'store', or leave it unset."
        if is_of_job
        else "Call devrt.distributed.initialize() first, or make the client with collectives=."
    )
    msg = (
        "programs on the devices of several processes exchange data through collectives, and the "
        f"{client.platform} client has none. {remedy}"
    )
    raise UnimplementedError(msg, operation="execute", platform=client.platform)


def _address_of(interface: str) -> str:
    """Return the IPv4 address of a network interface."""
    import fcntl

    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            found = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            names = ", ".join(name for _, name in socket.if_nameindex())
            msg = f"interface {interface!r} has no IPv4 address here: {error}. There are {names}."
            raise InvalidArgumentError(msg, interface=interface) from error
    return socket.inet_ntoa(found[20:24])
