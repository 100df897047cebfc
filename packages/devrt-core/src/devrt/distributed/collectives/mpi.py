"""Collectives through MPI, between the processes that its launcher started."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from devrt.distributed.collectives.host import HostCollectives
from devrt.errors import (
    DeadlineExceededError,
    DistributedError,
    InvalidArgumentError,
    PeerLostError,
    StatusCode,
    UnimplementedError,
)

__all__ = ["MpiCollectives", "mpi"]

Array = np.ndarray[Any, np.dtype[Any]]

_OPERATIONS = {"sum": "SUM", "avg": "SUM", "prod": "PROD", "min": "MIN", "max": "MAX"}
_EAGER_SECONDS = 0.002  # then the processor is left to others
_PAUSE_SECONDS = 0.0002
_LOOK_SECONDS = 1.0  # MPI does not say in every launcher that a process is gone


def mpi() -> Any:
    """Return mpi4py's module, with MPI started.

    Raises `UnimplementedError` where there is none.
    """
    try:
        from mpi4py import MPI  # type: ignore[import-not-found, unused-ignore]
    except (ImportError, RuntimeError) as error:  # without MPI's library it is the latter
        msg = (
            f"collectives through MPI need mpi4py and MPI's library, which cannot be used: "
            f"{error}. Install them (pip install mpi4py mpich), or use another engine."
        )
        raise UnimplementedError(msg, engine="mpi") from error
    return MPI


class MpiCollectives(HostCollectives):
    """The processes of an MPI job.

    Each operation is started and then tested, so that it ends at its deadline, and at Ctrl-C, and
    where the job's service has lost a process.

    Parameters
    ----------
    rank, size
        Which of how many processes this is in the job; by default as MPI counts.
    timeout
        Seconds that an operation waits for the other processes.
    checks
        As of `HostCollectives`.
    members
        The processes, by MPI's numbers, that call this; all of them when omitted.
    """

    engine = "mpi"

    def __init__(
        self,
        rank: int | None,
        size: int | None,
        timeout: float,
        checks: bool = True,
        members: Sequence[int] | None = None,
    ) -> None:
        self._mpi = mpi()
        world = self._mpi.COMM_WORLD
        needed = max(members) + 1 if members else size
        if needed is not None and (needed > world.size or (not members and needed != world.size)):
            msg = (
                f"collectives through MPI are for {needed} processes of the job, and MPI's "
                f"launcher started {world.size}. Start them together by mpiexec, or use another "
                "engine."
            )
            raise InvalidArgumentError(msg, engine="mpi")
        # Messages of its own, in the order of the job's numbers.
        with _Translated(self._mpi, "connect"):
            if members is None:
                self._group = world.Split(0, world.rank if rank is None else rank)
            else:
                self._group = world.Create_group(world.group.Incl(list(members)))
        self._group.Set_errhandler(self._mpi.ERRORS_RETURN)
        self._timeout = timeout
        super().__init__(self._group.rank, self._group.size, checks)

    def reduce_numbers(self, x: Array, op: str) -> Array:
        """Reduce as MPI does: the order of the ranks is its own."""
        out = np.empty_like(x)
        operation = getattr(self._mpi, _OPERATIONS[op])
        self._run("all_reduce", lambda: self._group.Iallreduce(x, out, op=operation))
        return out

    def reduce_scatter_numbers(self, x: Array, op: str) -> Array:
        """Return this rank's block of the reduction."""
        out = np.empty(x.size // self._size, x.dtype)
        operation = getattr(self._mpi, _OPERATIONS[op])
        self._run("reduce_scatter", lambda: self._group.Ireduce_scatter_block(x, out, op=operation))
        return out

    def gather_bytes(self, x: Array) -> Array:
        """Return the bytes of all ranks, one row for each."""
        out = np.empty((self._size, x.size), np.uint8)
        self._run("all_gather", lambda: self._group.Iallgather(x, out))
        return out

    def exchange_bytes(self, rows: Array) -> Array:
        """Send row ``j`` to rank ``j``."""
        out = np.empty_like(rows)
        self._run("all_to_all", lambda: self._group.Ialltoall(rows, out))
        return out

    def broadcast_bytes(self, x: Array, root: int) -> Array:
        """Return the bytes of one rank."""
        out = x.copy()
        self._run("broadcast", lambda: self._group.Ibcast(out, root=root))
        return out

    def permute_bytes(self, x: Array, pairs: list[tuple[int, int]]) -> Array:
        """Send bytes along pairs of ranks."""
        out = np.zeros_like(x)
        sources = [source for source, target in pairs if target == self._rank]
        targets = [target for source, target in pairs if source == self._rank]
        group = self._group

        def start() -> list[Any]:
            taken = [group.Irecv(out, source=source) for source in sources]
            return taken + [group.Isend(x, dest=target) for target in targets]

        self._run("permute", start)
        return out

    def send_bytes(self, x: Array, to: int, tag: int) -> None:
        """Send bytes; return when the memory may be used again."""
        self._run("send", lambda: self._group.Isend(x, dest=to, tag=tag))

    def receive_bytes(self, count: int, source: int, tag: int) -> Array:
        """Return the bytes that come, whatever their number."""
        status = self._mpi.Status()
        self._wait("receive", lambda: self._group.Iprobe(source=source, tag=tag, status=status))
        out = np.empty(status.Get_count(self._mpi.BYTE), np.uint8)
        self._run("receive", lambda: self._group.Irecv(out, source=source, tag=tag))
        return out

    def end(self) -> None:
        """Release the group, where MPI has not ended yet."""
        if not self._mpi.Is_finalized():
            self._group.Disconnect()

    def _run(self, operation: str, start: Callable[[], Any]) -> None:
        """Start an operation and wait for its end."""
        with _Translated(self._mpi, operation):
            requests = start()
        requests = requests if isinstance(requests, list) else [requests]
        self._wait(operation, lambda: self._mpi.Request.Testall(requests))

    def _wait(self, operation: str, is_done: Callable[[], bool]) -> None:
        began = time.monotonic()
        looked = began
        with _Translated(self._mpi, operation):
            while not is_done():
                seconds = time.monotonic() - began
                if seconds > self._timeout:
                    msg = (
                        f"{operation} of rank {self._rank} waited {self._timeout:g} s for the "
                        "other processes. Look at what they do, or give connect a longer timeout."
                    )
                    raise DeadlineExceededError(msg, operation=operation)
                if began + seconds > looked + _LOOK_SECONDS:
                    self.check_peers(operation)
                    looked = time.monotonic()
                if seconds > _EAGER_SECONDS:
                    time.sleep(_PAUSE_SECONDS)


class _Translated:
    """Raises MPI's errors as devrt's."""

    def __init__(self, module: Any, operation: str) -> None:
        self._mpi = module
        self._operation = operation

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if not isinstance(error, self._mpi.Exception):
            return
        text = error.Get_error_string()
        is_loss = "fail" in text.lower() and "process" in text.lower()
        made = PeerLostError if is_loss else DistributedError
        msg = f"{self._operation} failed in MPI: {text}."
        raise made(msg, code=StatusCode.UNAVAILABLE, operation=self._operation) from error
