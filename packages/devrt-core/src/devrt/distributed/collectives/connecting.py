"""Which engine the processes of a job exchange data with, and connecting them."""

from __future__ import annotations

import importlib.util
import json
import socket
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Any

from devrt._clusters import seen_clusters
from devrt._support.rounds import next_round
from devrt.distributed.collectives.host import HostCollectives
from devrt.distributed.state import global_state
from devrt.errors import InvalidArgumentError, UnimplementedError
from devrt.records import Available, Unavailable

__all__ = ["connect", "connect_by", "engines", "of_job", "own_host"]

_GROUP = "devrt_collectives"
_OF_MPI = ("ompi", "mpich")
_MPI, _STORE = "mpi", "store"


def engines() -> list[str]:
    """Return the engines that this process could use, the preferred one first.

    ``"mpi"`` where MPI's launcher started the process and mpi4py is installed; those that
    installed packages bring (entry points of the group ``devrt_collectives``, modules with
    ``probe()`` and ``connect(client, rank, size, name, host, timeout, checks)``); ``"store"``, the
    coordination service itself, which is slow for more than some megabytes.
    """
    launched = any(seen.name in _OF_MPI for seen in seen_clusters())
    has_mpi = launched and importlib.util.find_spec("mpi4py") is not None
    brought = _brought()
    usable = (
        name for name in sorted(brought) if isinstance(brought[name].load().probe(), Available)
    )
    return [*([_MPI] if has_mpi else []), *usable, _STORE]


def connect(
    engine: str | None = None,
    *,
    name: str = "world",
    timeout: float = 300.0,
    checks: bool = True,
    processes: Sequence[int] | None = None,
) -> HostCollectives:
    """Connect processes of this job for collectives; each of them calls it.

    Parameters
    ----------
    engine
        One of `engines`; the first that every process has when omitted.
    name
        What tells this communicator from others that are open; the same in every process.
    timeout
        Seconds that an operation waits for the other processes.
    checks
        Whether each operation compares first that all ranks ask for the same.
    processes
        The processes, of which this is one; all of the job when omitted.

    Returns
    -------
    HostCollectives
        Its ranks are the processes, in the order given.

    Raises
    ------
    InvalidArgumentError
        If this process is in no job, or there is no such engine.
    UnimplementedError
        If the engine cannot be used here.
    DeadlineExceededError, PeerLostError
        If a process does not come, or is lost.
    """
    if timeout <= 0:
        raise InvalidArgumentError(f"timeout must be above 0 seconds, and is {timeout!r}.")
    job = global_state
    if job.client is None:
        if engine == _MPI:
            return _mpi(None, None, timeout, checks)
        msg = (
            "collectives connect the processes of a job, and this process is in none. Call "
            "devrt.distributed.initialize() first, or connect('mpi') under MPI's launcher."
        )
        raise InvalidArgumentError(msg)
    members = tuple(range(job.num_processes)) if processes is None else tuple(processes)
    rank = _rank(job, members)
    name = name if processes is None else f"{name}/{'-'.join(map(str, members))}"
    # A later group must not read the keys of an earlier one.
    name = f"{name}/{next_round(job.client, f'collectives/{name}')}"
    engine = _agreed(job, name, timeout, members) if engine is None else engine
    if engine == _MPI:
        of_all = None if processes is None else members
        made = _mpi(rank, len(members), timeout, checks, of_all)
    else:
        host = own_host(job.coordinator_address)
        made = connect_by(engine, job.client, rank, len(members), name, host, timeout, checks)
    made.watch(job.client, members, timeout)
    return made


def connect_by(
    engine: str,
    client: Any,
    rank: int,
    size: int,
    name: str,
    host: str,
    timeout: float,
    checks: bool,
) -> HostCollectives:
    """Connect processes by an engine that takes nothing but a store of keys; see `connect`.

    Parameters
    ----------
    engine
        The engine.
    client
        The connection to the keys, through which the processes find each other.
    rank, size
        Which of how many processes this is.
    name
        What tells this communicator from all others, of earlier ones too.
    host
        The address of this process for the others.
    timeout, checks
        As of `connect`.
    """
    if engine == _STORE:
        from devrt.distributed.collectives.through_store import StoreCollectives

        return StoreCollectives(client, rank, size, name, timeout, checks)
    found = _brought().get(engine)
    if found is None:
        known = ", ".join(sorted({_MPI, _STORE, *_brought()}))
        msg = f"there is no engine {engine!r} for collectives. Those that are installed: {known}."
        raise InvalidArgumentError(msg, engine=engine)
    module = found.load()
    answer = module.probe()
    if isinstance(answer, Unavailable):
        msg = f"collectives through {engine} cannot be used: {answer.reason}. {answer.remedy}"
        raise UnimplementedError(msg, engine=engine)
    made: HostCollectives = module.connect(client, rank, size, name, host, timeout, checks)
    return made


def _rank(job: Any, members: tuple[int, ...]) -> int:
    if job.process_id not in members or len(set(members)) != len(members):
        msg = (
            f"processes are {members}, each of which calls connect: name this one, "
            f"{job.process_id}, and each once."
        )
        raise InvalidArgumentError(msg, processes=members)
    return members.index(job.process_id)


def _mpi(
    rank: int | None,
    size: int | None,
    timeout: float,
    checks: bool,
    members: Sequence[int] | None = None,
) -> HostCollectives:
    from devrt.distributed.collectives.mpi import MpiCollectives

    return MpiCollectives(rank, size, timeout, checks, members)


def _agreed(job: Any, name: str, timeout: float, members: Sequence[int]) -> str:
    """Return the first engine that every process has, in the order of the first one."""
    milliseconds = max(1, round(timeout * 1000))
    prefix = f"devrt/collectives/{name}/engines"
    mine = json.dumps(engines())
    job.client.key_value_set(f"{prefix}/{job.process_id}", mine, allow_overwrite=True)
    found = [
        json.loads(job.client.blocking_key_value_get(f"{prefix}/{process}", milliseconds))
        for process in members
    ]
    return str(next(engine for engine in found[0] if all(engine in one for one in found)))


def own_host(address: str | None) -> str:
    """Return this machine's address on the way to the coordinator, by which the others reach it."""
    first = (address or "").rpartition("://")[2].partition("/")[0].partition(",")[0]
    host, _, port = first.rpartition(":")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host.strip("[]") or "localhost", int(port or 1), type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(where)  # sends nothing
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return "localhost"


def _brought() -> dict[str, Any]:
    return {point.name: point for point in entry_points(group=_GROUP)}


def of_job() -> HostCollectives:
    """Return the communicator of this job's processes that devrt itself uses; made at first.

    Every process must call it, as it connects them.
    """
    if global_state.collectives is None:
        global_state.collectives = connect(name="job")
    return global_state.collectives
