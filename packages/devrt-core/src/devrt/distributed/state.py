"""What this process has of its job: ``initialize``, ``shutdown`` and what is known in between."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from devrt._clusters import Membership
from devrt._support.record import record
from devrt.contract import Job
from devrt.distributed.aborting import aborting
from devrt.distributed.arguments import (
    callback,
    device_ids,
    file,
    flag,
    partition,
    positive_seconds,
    seconds,
    text,
)
from devrt.distributed.bringup import resolved
from devrt.distributed.client import DistributedRuntimeClient, Times
from devrt.distributed.cluster import Limits
from devrt.distributed.comparing import Comparison
from devrt.distributed.engines import location_of
from devrt.distributed.faults import refused
from devrt.distributed.forking import renounced_by_children
from devrt.distributed.security import (
    Security,
    bound_address,
    check_loopback,
    given_security,
    is_loopback,
)
from devrt.distributed.service import DistributedRuntimeService
from devrt.distributed.services import AnyService, begun
from devrt.errors import InvalidArgumentError, StatusCode
from devrt.runtime import default_runtime

if TYPE_CHECKING:
    from devrt.distributed.collectives.host import HostCollectives
    from devrt.distributed.preemption import PreemptionSync

__all__ = ["State", "global_state", "initialize", "is_initialized", "shutdown"]

_RPC_SECONDS = 120
_GRACE = 10  # the service's own deadline comes first: its error names who is missing
_BIND_VARIABLES = ("DEVRT_COORDINATOR_BIND_ADDRESS", "JAX_COORDINATOR_BIND_ADDRESS")
_VISIBLE = "_visible_devices"


@record(frozen=True, slots=True)
class _How:
    """How a process joins, and process 0 serves."""

    limits: Limits
    security: Security
    bind_address: str | None
    allow_remote: bool
    recoverable: bool
    on_loss: Callable[[Exception], Any] | None
    journal: str | None
    partition_index: int | None


class State:
    """What this process knows of its job; `global_state` is the only one.

    Attributes
    ----------
    process_id, num_processes : int
        Which of how many processes it is; 0 of 1 before ``initialize``.
    service : DistributedRuntimeService, StoredService, JaxlibService or None
        The coordination service, in process 0.
    client : DistributedRuntimeClient or None
        The connection to it: keys and barriers.
    coordinator_address : str or None
        Where it is.
    partition_index : int or None
        As given.
    collectives : HostCollectives or None
        What devrt itself exchanges data with the other processes by, once it has.
    communicators : tuple of HostCollectives
        What its programs exchange data by.
    preemption_sync_manager : PreemptionSync or None
        What agrees on a step to stop at, once a program wants one.
    """

    process_id: int = 0
    num_processes: int = 1
    service: AnyService | None = None
    client: DistributedRuntimeClient | None = None
    coordinator_address: str | None = None
    partition_index: int | None = None
    collectives: HostCollectives | None = None
    communicators: tuple[HostCollectives, ...] = ()
    preemption_sync_manager: PreemptionSync | None = None

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parents: tuple[Any, ...] = ()
        renounced_by_children(self)

    def renounce(self) -> None:
        """Give up what is another process's, and end nothing of it: called in a fork's child."""
        mine = ("service", "collectives", "communicators", "preemption_sync_manager")
        self._lock = threading.Lock()  # another thread of the parent may have held it
        self._parents = tuple(vars(self).pop(name, None) for name in mine)

    def _join(self, given: dict[str, Any], method: str | None, how: _How) -> None:
        with self._lock:
            if self.client is not None:
                words = "devrt.distributed.initialize should only be called once. Call shutdown()."
                raise refused(StatusCode.FAILED_PRECONDITION, words)
            found = resolved(given, method)
            _check_unused(found.values["num_processes"])
            _use_devices(found.values.get("local_device_ids"))
            service = _served(found, how) if found.values["process_id"] == 0 else None
            try:
                client, address = _connected(found, how, service)
            except BaseException:
                if service is not None:
                    service.shutdown()
                raise
            self.process_id = found.values["process_id"]
            self.num_processes = found.values["num_processes"]
            self.service, self.client, self.coordinator_address = service, client, address
            self.partition_index = how.partition_index
            who = client, self.process_id, self.num_processes
            default_runtime().join(Job(*who, Comparison(*who), how.partition_index))

    def _leave(self) -> None:
        with self._lock:
            client, service, group = self.client, self.service, self.collectives
            preemption = self.preemption_sync_manager
            groups = (*self.communicators, *(() if group is None else (group,)))
            if client is not None:
                default_runtime().join(None)
            vars(self).update({name: getattr(State, name) for name in State.__annotations__})
        try:
            if preemption is not None:
                preemption.close()
            for each in groups:
                each.close()
            if isinstance(service, DistributedRuntimeService):
                service.end_soon()  # who joins the next job must not get into this one
            if client is not None:
                client.shutdown()
        finally:
            if service is not None:
                service.shutdown()

    def _end(self) -> None:
        """End the service with the process; nobody is waited for, as the job may have failed."""
        if self.service is not None:
            self.service.shutdown()


global_state = State()
atexit.register(global_state._end)


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: float = 300,
    heartbeat_timeout_seconds: float = 100,
    shutdown_timeout_seconds: float = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
    *,
    missed_heartbeat_callback: Callable[[Exception], Any] | None = None,
    abort_on_loss: bool = False,
    recoverable: bool = False,
    allow_remote: bool = False,
    token: str | None = None,
    mtls_cert_file: str | None = None,
    mtls_key_file: str | None = None,
    mtls_ca_file: str | None = None,
    mtls_peer_uri_prefix: str | None = None,
    verify_secure_credentials: bool = False,
    etcd_user: str | None = None,
    etcd_password: str | None = None,
    journal: str | os.PathLike[str] | None = None,
) -> None:
    """Join the job that this process is one of; return when every process has.

    From then on `devrt.devices` are those of all processes, and `devrt.local_devices` this one's.
    The first question for a platform's devices waits for every process to ask it.

    What is not given is read from variables (``DEVRT_COORDINATOR_ADDRESS``,
    ``DEVRT_NUM_PROCESSES``, ``DEVRT_PROCESS_ID``, ``DEVRT_LOCAL_DEVICE_IDS``, or JAX's of these
    names), and else from the cluster that started the process. Process 0 starts the service.

    Parameters
    ----------
    coordinator_address
        ``host:port`` of process 0, or ``etcd://host:port,.../prefix``.
    num_processes, process_id
        How many processes there are, and which this is, from 0.
    local_device_ids
        The devices of this machine that this process uses: GPUs, by the driver's numbers.
    cluster_detection_method
        ``"torchrun"``, ``"ompi"``, ``"mpich"``, ``"slurm"``, ``"k8s"``, ``"tpu"`` or ``"mpi4py"``;
        the last only where it is named. ``"deactivate"`` detects no cluster.
    initialization_timeout
        Seconds that the first process waits for the last.
    heartbeat_timeout_seconds
        Seconds without a sign after which a process, or the service, counts as lost.
    shutdown_timeout_seconds
        Seconds that ``shutdown`` waits for the other processes.
    coordinator_bind_address
        Where process 0 listens, if not at ``coordinator_address``.
    slice_index, partition_index
        Which partition of the job's GPUs this process's are in: ``device.partition_index``. The
        second wins; either all processes give one or none. None: GPUs of one host are in one.
    missed_heartbeat_callback, abort_on_loss, recoverable
        As of `get_distributed_runtime_client` and `get_distributed_runtime_service`.
    allow_remote, token, mtls_cert_file, mtls_key_file, mtls_ca_file, mtls_peer_uri_prefix
        Who may join, as of `get_distributed_runtime_service`; the same in every process.
    verify_secure_credentials
        Whether no certificates are an error.
    etcd_user, etcd_password
        The user of an etcd that asks for one; else ``DEVRT_ETCD_USER`` and ``DEVRT_ETCD_PASSWORD``.
    journal
        A file in which process 0 keeps the job. Where that process dies and is started again with
        the same arguments, its service carries on, it is one of the job again, and the others wait
        for it for a heartbeat. It needs ``recoverable=True``, and is unused in other processes.

    Raises
    ------
    InvalidArgumentError
        If an address or a number is not known, or cannot be.
    DeadlineExceededError
        If processes did not come in time; ``missing`` has their ids.
    DistributedError
        If it was called before, or after a client of devices was made; if the port is in use, or
        the service refuses this process.
    """
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
    limits = Limits(
        positive_seconds(heartbeat_timeout_seconds, "heartbeat_timeout_seconds"),
        seconds(initialization_timeout, "initialization_timeout"),
        positive_seconds(shutdown_timeout_seconds, "shutdown_timeout_seconds"),
    )
    on_loss = callback(missed_heartbeat_callback, "missed_heartbeat_callback")
    how = _How(
        limits,
        security,
        _bind_address(coordinator_bind_address),
        flag(allow_remote, "allow_remote"),
        flag(recoverable, "recoverable"),
        aborting(on_loss) if flag(abort_on_loss, "abort_on_loss") else on_loss,
        file(journal, "journal"),
        partition(slice_index, partition_index),
    )
    if journal is not None and not recoverable:
        msg = "a journal lets process 0 come again, which only recoverable=True allows. Give both."
        raise InvalidArgumentError(msg, journal=how.journal)
    given = {
        "coordinator_address": coordinator_address,
        "num_processes": num_processes,
        "process_id": process_id,
        "local_device_ids": device_ids(local_device_ids),
    }
    global_state._join(given, cluster_detection_method, how)


def shutdown() -> None:
    """Leave the job when every process that is alive does; process 0 ends the service. Idempotent.

    Clients of devices stay, with their arrays, and know the devices of all processes: before this
    process joins another job it is to call `devrt.clear_backends`.

    Raises
    ------
    DeadlineExceededError
        If others did not leave in time; this process has left nevertheless.
    """
    global_state._leave()


def is_initialized() -> bool:
    """Return whether this process has joined a job, and not left it."""
    return global_state.client is not None


def _served(found: Membership, how: _How) -> AnyService:
    """Start the service: on loopback where that is enough, else on every address."""
    address, size = found.values["coordinator_address"], found.values["num_processes"]
    location = location_of(address)
    rules = (how.limits, how.recoverable, how.allow_remote, how.security)
    if location.engine != "embedded":
        return begun(address, size, *rules, journal=how.journal)
    host, port = bound_address(address)
    bind = how.bind_address or next(filter(None, map(os.environ.get, _BIND_VARIABLES)), None)
    if bind is None and not is_loopback(host):
        check_loopback(host, how.allow_remote, how.security)  # its error names the host given
        bind = f"[::]:{port}"
    service = DistributedRuntimeService(bind or address, size, *rules, journal=how.journal)
    service.lose(found.values["process_id"])  # an earlier one died with the service of its journal
    return service


def _connected(
    found: Membership, how: _How, service: AnyService | None
) -> tuple[DistributedRuntimeClient, str]:
    address = found.values["coordinator_address"]
    if service is not None and location_of(address).has_free_port:
        address = service.address
    limits = how.limits
    times = Times(_RPC_SECONDS, limits.register + _GRACE, limits.shutdown, limits.heartbeat)
    client = DistributedRuntimeClient(
        address,
        found.values["process_id"],
        times,
        how.security,
        how.on_loss,
        num_processes=found.values["num_processes"],
    )
    if service is None and location_of(address).engine == "embedded":
        client.service_process = 0
    client.connect()
    return client, address


def _bind_address(value: str | None) -> str | None:
    if value is not None:
        bound_address(text(value, "coordinator_bind_address"))
    return value


def _check_unused(num_processes: int) -> None:
    """Refuse a job of several processes once there are clients, which know this one's devices."""
    used = default_runtime().live_clients()
    if used and num_processes > 1:
        owners = {d.process_index for client in used.values() for d in client.devices()}
        whose = "those of a job that this process has left" if len(owners) > 1 else "its own alone"
        words = (
            f"devrt.distributed.initialize came after a client was made ({', '.join(used)}), whose "
            f"devices are {whose}. Call devrt.clear_backends() first, which deletes its arrays, or "
            "initialize before anything uses a device."
        )
        raise refused(StatusCode.FAILED_PRECONDITION, words)


def _use_devices(ids: Sequence[int] | None) -> None:
    """Let the clients of this process use some of the machine's devices: those that can be chosen.

    Every platform of GPUs has an option for it.
    """
    if ids is None:
        return
    runtime = default_runtime()
    runtime.load_options()
    for name in runtime.config.names():
        if name.endswith(_VISIBLE):
            runtime.config.update(name, ",".join(map(str, ids)))
