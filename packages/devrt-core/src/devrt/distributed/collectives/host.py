"""Communicators of processes, each of which is one rank: what every engine checks alike."""

from __future__ import annotations

import abc
import hashlib
import math
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from devrt._support.losses import lost_of, why_ended
from devrt.contract import Collectives
from devrt.distributed.collectives.given import bytes_of, check_other, check_rank, only, pairs_of
from devrt.distributed.collectives.held import Held
from devrt.distributed.collectives.reductions import check_reduction, finished, prepared, reduced
from devrt.distributed.collectives.stalls import end_stalls_of
from devrt.distributed.faults import named
from devrt.errors import (
    ClosedError,
    DistributedError,
    InvalidArgumentError,
    PeerLostError,
    StatusCode,
)

__all__ = ["HostCollectives"]

Array = np.ndarray[Any, np.dtype[Any]]

_SIGNATURE = 16


class HostCollectives(Collectives):
    """A group of processes that exchange arrays of the host.

    An engine implements the members that end in ``_bytes`` and ``_numbers``, which get dense
    arrays that all ranks have of one size. One operation runs at a time; another thread's waits.

    Parameters
    ----------
    rank, size
        Which of how many processes this is.
    checks
        Whether each operation first compares what the ranks ask for, so that shapes or operations
        that differ are an error in every rank. It costs one short exchange.

    Attributes
    ----------
    ends_at_failure : bool
        Whether an operation that fails ends the engine's connections; `interrupt` ends it.
    """

    ends_at_failure = False

    def __init__(self, rank: int, size: int, checks: bool = True) -> None:
        self._rank = rank
        self._size = size
        self._checks = checks
        self._lock = threading.Lock()
        self._closed = False
        self._failure: BaseException | None = None
        self._current = ""
        self._since: float | None = None
        self._seconds = math.inf
        self._watched: tuple[Any, Sequence[int]] | None = None

    @property
    def size(self) -> int:
        """The number of processes."""
        return self._size

    @property
    def rank(self) -> int:
        """The number of this one."""
        return self._rank

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of this process."""
        return (self._rank,)

    def watch(self, client: Any, processes: Sequence[int], seconds: float | None = None) -> None:
        """Let a job's service name the processes that an engine finds lost.

        Parameters
        ----------
        client
            The connection to the service.
        processes
            That of each rank.
        seconds
            For how long an operation may wait, the service's answer included.
        """
        self._watched = (client, processes)
        if seconds is not None:
            self._seconds = seconds
        if self.ends_at_failure:
            end_stalls_of(self)

    def check_peers(self, operation: str) -> None:
        """Raise if a process is lost: for engines that do not find that themselves.

        Parameters
        ----------
        operation
            What waits.

        Raises
        ------
        PeerLostError
            If the job's service, where `watch` gave one, has lost a process; names those.
        """
        lost = lost_of(*self._watched) if self._watched is not None else []
        if lost:
            msg = f"{operation} of rank {self._rank} waits for a process that is gone."
            raise PeerLostError(
                msg, code=StatusCode.UNAVAILABLE, operation=operation, processes=tuple(lost)
            )

    def all_reduce(
        self, values: Sequence[Any], op: str = "sum", *, donate: bool = False
    ) -> list[Any]:
        """Combine the elements of all ranks; nothing is donated here."""
        x = only(values, "all_reduce")
        check_reduction(x.dtype, op)
        with self._operation(f"all_reduce {op}", x):
            total = self.reduce_numbers(prepared(x).reshape(-1), op)
        return [finished(total, x.dtype, op, self._size).reshape(x.shape)]

    def all_reduce_in_place(self, x: Array, op: str = "sum") -> None:
        """Combine the elements of all ranks, in the memory of a dense array of this one's.

        Parameters
        ----------
        x
            What this rank gives, and then the result: of a dtype that every engine reduces.
        op
            As for `all_reduce`, but for ``avg``.
        """
        with self._operation(f"all_reduce {op}", x):
            self.reduce_in_place(x.reshape(-1), op)

    def reduce_scatter(
        self, values: Sequence[Any], op: str = "sum", *, tiled: bool = False
    ) -> list[Any]:
        """Combine the elements of all ranks; return this rank's part."""
        x = only(values, "reduce_scatter")
        check_reduction(x.dtype, op)
        rows = self._rows(x, "reduce_scatter")
        if not tiled and rows != 1:
            msg = (
                f"reduce_scatter gives each of {self._size} ranks one element of the first axis, "
                f"which has {x.shape[0]}. Use tiled=True."
            )
            raise InvalidArgumentError(msg, operation="reduce_scatter")
        with self._operation(f"reduce_scatter {op}", x):
            mine = self.reduce_scatter_numbers(prepared(x).reshape(-1), op)
        shape = (rows, *x.shape[1:]) if tiled else x.shape[1:]
        return [finished(mine, x.dtype, op, self._size).reshape(shape)]

    def all_gather(self, values: Sequence[Any], *, tiled: bool = False) -> list[Any]:
        """Return the arrays of all ranks, in their order."""
        x = only(values, "all_gather")
        if tiled and not x.ndim:
            msg = "all_gather joins along the first axis, which a scalar has not. Leave out tiled."
            raise InvalidArgumentError(msg, operation="all_gather")
        with self._operation("all_gather", x):
            found = self.gather_bytes(bytes_of(x))
        shape = (self._size * x.shape[0], *x.shape[1:]) if tiled else (self._size, *x.shape)
        return [found.reshape(-1).view(x.dtype).reshape(shape)]

    def all_to_all(self, values: Sequence[Any]) -> list[Any]:
        """Send each rank its part; return this rank's of all."""
        x = only(values, "all_to_all")
        self._rows(x, "all_to_all")
        with self._operation("all_to_all", x):
            found = self.exchange_bytes(bytes_of(x).reshape(self._size, -1))
        return [found.reshape(-1).view(x.dtype).reshape(x.shape)]

    def broadcast(self, values: Sequence[Any], root: int = 0) -> list[Any]:
        """Return the array of one rank; the others' give the shape and dtype."""
        x = only(values, "broadcast")
        check_rank(root, self._size, "broadcast")
        with self._operation(f"broadcast {root}", x):
            found = self.broadcast_bytes(bytes_of(x), root)
        return [found.view(x.dtype).reshape(x.shape)]

    def permute(self, values: Sequence[Any], pairs: Iterable[tuple[int, int]]) -> list[Any]:
        """Send arrays along pairs of a source and a target; who gets none has zeros."""
        x = only(values, "permute")
        listed = pairs_of(pairs)
        for ranks in zip(*listed, strict=True):
            if len(set(ranks)) != len(ranks):
                msg = f"permute has a source or a target twice in {listed}. Give each once."
                raise InvalidArgumentError(msg, operation="permute")
            for rank in ranks:
                check_rank(rank, self._size, "permute")
        with self._operation(f"permute {listed}", x):
            found = self.permute_bytes(bytes_of(x), listed)
        return [found.view(x.dtype).reshape(x.shape)]

    def compare(self, operation: str, x: Array) -> list[int]:
        """Return the ranks that have other bytes than this one; only checksums are exchanged.

        Parameters
        ----------
        operation
            What asks, for errors.
        x
            A dense array, of any shape and dtype.
        """
        with self._locked(operation):
            return self._others(bytes_of(x).data)

    def barrier(self) -> None:
        """Return when every process has come here."""
        with self._operation("barrier", np.empty(0, np.uint8)):
            if not self._checks:  # what was compared has met already
                self.gather_bytes(np.zeros(1, np.uint8))

    def send(self, value: Any, to: int, tag: int = 0) -> None:
        """Send an array to the process that receives it."""
        x = only([value], "send")
        check_other(to, self._rank, self._size, "send")
        with self._locked("send"):
            self.send_bytes(bytes_of(x), to, tag)

    def receive(self, like: Any, source: int, tag: int = 0) -> Any:
        """Return what a process sends: of the shape and dtype of ``like``."""
        x = only([like], "receive")
        check_other(source, self._rank, self._size, "receive")
        with self._locked("receive"):
            found = self.receive_bytes(x.nbytes, source, tag)
        if found.size != x.nbytes:
            msg = (
                f"receive got {found.size} bytes of rank {source}, and expected {x.nbytes}: of "
                f"shape {x.shape} and dtype {x.dtype}. Send and receive the same shape."
            )
            raise InvalidArgumentError(msg, operation="receive", rank=source)
        return found.view(x.dtype).reshape(x.shape)

    def close(self) -> None:
        """Release what the group holds. Idempotent."""
        with self._lock:
            closed, self._closed = self._closed, True
            if not closed:
                self.end()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def end_if_stalled(self, seconds: float) -> None:
        """End an operation that has waited so long if a process, or the job's service, is lost.

        Parameters
        ----------
        seconds
            For how long the operation is left alone.
        """
        since = self._since
        if since is None or self._watched is None or time.monotonic() - since < seconds:
            return
        if why_ended(*self._watched) and self._since == since:
            self.interrupt()

    # -- what an engine implements -------------------------------------------------------------

    @abc.abstractmethod
    def reduce_numbers(self, x: Array, op: str) -> Array:
        """Return the reduction of all ranks' numbers; ``avg`` as their sum."""

    def reduce_in_place(self, x: Array, op: str) -> None:
        """Reduce all ranks' numbers where this one's are."""
        x[...] = self.reduce_numbers(x, op)

    def reduce_scatter_numbers(self, x: Array, op: str) -> Array:
        """Return this rank's block of the reduction: each rank reduces what it is sent."""
        sent = x.view(np.uint8).reshape(self._size, -1)
        return reduced(list(self.exchange_bytes(sent).view(x.dtype)), op)

    @abc.abstractmethod
    def gather_bytes(self, x: Array) -> Array:
        """Return the bytes of all ranks, one row for each."""

    @abc.abstractmethod
    def exchange_bytes(self, rows: Array) -> Array:
        """Send row ``j`` to rank ``j``; return the rows by the rank they are of."""

    @abc.abstractmethod
    def broadcast_bytes(self, x: Array, root: int) -> Array:
        """Return the bytes of one rank."""

    @abc.abstractmethod
    def permute_bytes(self, x: Array, pairs: list[tuple[int, int]]) -> Array:
        """Send bytes along pairs of ranks; zeros where none come."""

    @abc.abstractmethod
    def send_bytes(self, x: Array, to: int, tag: int) -> None:
        """Send bytes to a rank; may return before they are received."""

    @abc.abstractmethod
    def receive_bytes(self, count: int, source: int, tag: int) -> Array:
        """Return so many bytes of a rank."""

    @abc.abstractmethod
    def end(self) -> None:
        """Release what the engine holds; called once."""

    def interrupt(self) -> None:
        """End the operation that another thread waits in, where the engine can."""

    # -- helpers -------------------------------------------------------------------------------

    def _locked(self, operation: str) -> Held:
        return Held(self, operation)

    def _operation(self, what: str, x: Array) -> Held:
        return Held(self, what, x)

    def _enter(self, what: str) -> None:
        operation = what.split()[0]
        if self._closed:
            msg = f"{operation} failed: this communicator was closed. Connect another one."
            raise ClosedError(msg, operation=operation)
        self._check_failure(operation)
        self._current, self._since = operation, time.monotonic()

    def _left(self) -> float:
        """Return for how many seconds the operation under way may still wait."""
        since = time.monotonic() if self._since is None else self._since
        return max(0.0, since + self._seconds - time.monotonic())

    def _named(self, ranks: Sequence[int]) -> str:
        """Return ranks in words, with their processes where those are known."""
        words = f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"
        if self._watched is None:
            return words
        processes = self._watched[1]
        return f"{words} ({named([processes[rank] for rank in ranks])})"

    def _check_failure(self, operation: str) -> None:
        """Raise if an earlier operation ended in the middle: the ranks are no longer in step."""
        failure = self._failure
        if isinstance(failure, PeerLostError):
            raise failure.fresh()
        if failure is not None:
            msg = (
                f"{operation} failed: an earlier operation of this communicator ended in the "
                f"middle, by {type(failure).__name__}, and its ranks are no longer in step. "
                "Connect another one in every process."
            )
            raise DistributedError(msg, code=StatusCode.FAILED_PRECONDITION, operation=operation)

    def _note_failure(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
            self.interrupt()  # the others would wait for this rank

    def _others(self, mine: Any) -> list[int]:
        """Return the ranks that have other bytes than this one, by one short exchange."""
        digest = hashlib.blake2b(mine, digest_size=_SIGNATURE).digest()
        found = self.gather_bytes(np.frombuffer(digest, np.uint8))
        return [rank for rank, row in enumerate(found) if row.tobytes() != digest]

    def _difference(self, mine: str) -> InvalidArgumentError | None:
        """Return the error, in every rank, if they do not ask for the same."""
        others = self._others(mine.encode())
        if not others:
            return None
        listed = ", ".join(map(str, others))
        msg = (
            f"rank {self._rank} asks for {mine}, and rank {listed} for something else. Every "
            "rank must call the same operations with the same shapes, in the same order."
        )
        return InvalidArgumentError(msg, operation=mine.split()[0], ranks=tuple(others))

    def _rows(self, x: Array, operation: str) -> int:
        """Return how much of the first axis each rank gets."""
        if not x.ndim or x.shape[0] % self._size:
            msg = (
                f"{operation} divides the first axis among {self._size} ranks, and the array has "
                f"shape {x.shape}. Pad it."
            )
            raise InvalidArgumentError(msg, operation=operation)
        return int(x.shape[0] // self._size)
