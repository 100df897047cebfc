"""What a process is given, or finds, to join its job with; each value's source is logged."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from devrt._clusters import (
    NEEDED,
    Membership,
    SeenCluster,
    address_of,
    check_joinable,
    cluster_named,
    membership,
)
from devrt._support import log
from devrt.distributed.engines import location_of
from devrt.distributed.ports import free_port
from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = ["resolved"]

_OPT_IN = "mpi4py"  # finding out starts MPI
_NONE = "deactivate"


def resolved(given: Mapping[str, Any], method: str | None) -> Membership:
    """Return where to join, and as which process; given, set by variables, or detected.

    Raises
    ------
    InvalidArgumentError
        If something is not known, or no cluster is called so; a value that cannot be.
    """
    found = membership(given, _cluster(given, method), detects=method != _NONE)
    if found.missing:
        msg = f"this process cannot join a job: {found.why_missing()}"
        raise InvalidArgumentError(msg, missing=found.missing)
    if found.problems:
        raise InvalidArgumentError(f"this process cannot join a job: {found.problems[0]}")
    _check(found)
    log.info("bring-up: %s", found.described())
    return found


def _cluster(given: Mapping[str, Any], method: str | None) -> SeenCluster | None:
    if method is None or method == _NONE:
        return None
    return _of_mpi(given.get("coordinator_address")) if method == _OPT_IN else cluster_named(method)


def _of_mpi(address: str | None) -> SeenCluster:
    """Let the processes of MPI agree on an address; every one of them has to come here."""
    try:
        from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]
    except (ImportError, RuntimeError) as error:  # without MPI's library it is the latter
        msg = f"cluster_detection_method='mpi4py' needs mpi4py, which cannot be used: {error}."
        raise InvalidArgumentError(msg, method=_OPT_IN) from error
    everyone = MPI.COMM_WORLD
    together = everyone.Split_type(MPI.COMM_TYPE_SHARED)
    if address is None and everyone.rank == 0:
        is_one_machine = together.size == everyone.size
        host = "localhost" if is_one_machine else socket.gethostname()
        address = address_of(host, free_port("localhost" if is_one_machine else ""))
    address = everyone.bcast(address)
    return SeenCluster(
        _OPT_IN, _OPT_IN, {}, address, everyone.size, everyone.rank, int(together.rank)
    )


def _check(found: Membership) -> None:
    address, size, process = (found.values[name] for name in NEEDED)
    for name, value in (("num_processes", size), ("process_id", process)):
        if not isinstance(value, int) or isinstance(value, bool):
            msg = f"{name} must be an int, and is {value!r} ({found.sources[name]})."
            raise InvalidTypeError(msg)
    if not isinstance(address, str):
        msg = f"coordinator_address must be a str, host:port, and is {address!r}."
        raise InvalidTypeError(msg)
    location_of(address)
    check_joinable(found)
