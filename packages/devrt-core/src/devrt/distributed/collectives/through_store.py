"""Collectives through the keys of a job's coordination service, which every job has."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.distributed.collectives.host import HostCollectives
from devrt.distributed.collectives.reductions import reduced
from devrt.errors import DeadlineExceededError, DevrtError, DistributedError, StatusCode

__all__ = ["StoreCollectives"]

Array = np.ndarray[Any, np.dtype[Any]]

_CHUNK = 4 << 20  # of the 16 MiB that a message of the service may have
_DATA, _ENDED = b"\0", b"\1"  # what a value begins with


class StoreCollectives(HostCollectives):
    """Processes that leave their data for each other at the coordination service.

    Everything goes through one process, so it is for values of some megabytes at most. The
    service notices processes that are lost.

    Parameters
    ----------
    client
        The connection to the service.
    rank, size
        Which of how many processes this is.
    name
        What tells its keys from those of other groups, of earlier ones too.
    timeout
        Seconds that an operation waits for the other processes.
    checks
        As of `HostCollectives`.
    """

    engine = "store"

    def __init__(
        self, client: Any, rank: int, size: int, name: str, timeout: float, checks: bool = True
    ) -> None:
        super().__init__(rank, size, checks)
        self._client = client
        self._prefix = f"devrt/collectives/{name}"
        self._timeout = self._seconds = timeout
        self._round = 0
        self._mine: list[list[str]] = [[], []]  # keys of the last two rounds
        self._sent: dict[tuple[int, int, int], int] = {}

    def reduce_numbers(self, x: Array, op: str) -> Array:
        """Reduce in the order of the ranks, so that every rank gets the same bits."""
        rows = self.gather_bytes(x.view(np.uint8))
        return reduced([row.view(x.dtype) for row in rows], op)

    def gather_bytes(self, x: Array) -> Array:
        """Leave the bytes for all, and take everybody's."""
        self._publish(x)
        return np.stack([self._published(rank, x.size) for rank in range(self._size)])

    def exchange_bytes(self, rows: Array) -> Array:
        """Leave all rows; take the one for this rank of each."""
        return (
            self.gather_bytes(rows.reshape(-1))
            .reshape(self._size, self._size, -1)[:, self._rank]
            .copy()
        )

    def broadcast_bytes(self, x: Array, root: int) -> Array:
        """Leave the bytes of one rank; the others leave a word that they came."""
        is_root = self._rank == root
        self._publish(x if is_root else x[:0])
        for rank in range(self._size):
            if rank != root:
                self._published(rank, 0)
        return x.copy() if is_root else self._published(root, x.size)

    def permute_bytes(self, x: Array, pairs: list[tuple[int, int]]) -> Array:
        """Take the source's bytes of all."""
        rows = self.gather_bytes(x)
        sources = [source for source, target in pairs if target == self._rank]
        return rows[sources[0]] if sources else np.zeros_like(x)

    def send_bytes(self, x: Array, to: int, tag: int) -> None:
        """Leave the bytes at the number of the message between the two."""
        self._put(self._message(self._rank, to, tag), x)

    def receive_bytes(self, count: int, source: int, tag: int) -> Array:
        """Take a message and delete it."""
        key = self._message(source, self._rank, tag)
        found = self._take(key, count, source, lambda: [source])
        self._client.key_value_delete(key)
        return found

    def interrupt(self) -> None:
        """Leave word where the others look for this rank's next part."""
        with contextlib.suppress(DevrtError):  # the job may have ended, or the part be there
            self._client.key_value_set_bytes(f"{self._key(self._round + 1, self._rank)}/0", _ENDED)

    def end(self) -> None:
        """Delete what every process has read: not the last round's, which some may be reading."""
        for key in self._mine[0]:
            with contextlib.suppress(DevrtError):  # the job may have ended
                self._client.key_value_delete(key)

    def _message(self, source: int, target: int, tag: int) -> str:
        which = (source, target, tag)
        number = self._sent.get(which, 0)
        self._sent[which] = number + 1
        return f"{self._prefix}/{source}-{target}-{tag}/{number}"

    def _publish(self, x: Array) -> None:
        """Begin a round. Who has begun this one has read all of the last but one."""
        old, last = self._mine
        for key in old:
            self._client.key_value_delete(key)
        key = self._key(self._round + 1, self._rank)
        self._mine = [last, [key]]
        self._put(key, x)
        self._round += 1

    def _published(self, rank: int, count: int) -> Array:
        return self._take(self._key(self._round, rank), count, rank, lambda: self._late(rank))

    def _put(self, key: str, x: Array) -> None:
        for number, start in enumerate(range(0, max(x.size, 1), _CHUNK)):
            piece = _DATA + x[start : start + _CHUNK].tobytes()
            self._client.key_value_set_bytes(f"{key}/{number}", piece)

    def _take(self, key: str, count: int, rank: int, late: Callable[[], list[int]]) -> Array:
        count = max(1, math.ceil(count / _CHUNK))
        try:
            pieces = [self._piece(f"{key}/{number}", rank) for number in range(count)]
        except DeadlineExceededError as error:
            raise self._deadline(late()) from error
        return np.frombuffer(bytearray(b"".join(pieces)), np.uint8)

    def _piece(self, key: str, rank: int) -> memoryview:
        milliseconds = max(1, round(self._left() * 1000))
        value = self._client.blocking_key_value_get_bytes(key, milliseconds)
        if value[:1] == _ENDED:
            msg = (
                f"an operation of this communicator ended in the middle in {self._named([rank])}, "
                "and its ranks are no longer in step. Look at the error there, and connect "
                "another one in every process."
            )
            raise DistributedError(msg, code=StatusCode.ABORTED, ranks=(rank,))
        return memoryview(value)[1:]

    def _late(self, first: int) -> list[int]:
        """Return the ranks from one on that have not come to this round, that one included."""
        return [first, *(r for r in range(first + 1, self._size) if not self._has_come(r))]

    def _has_come(self, rank: int) -> bool:
        with contextlib.suppress(DevrtError):
            self._client.key_value_try_get_bytes(f"{self._key(self._round, rank)}/0")
            return True
        return False

    def _deadline(self, late: list[int]) -> DeadlineExceededError:
        operation = self._current
        msg = (
            f"{operation} of rank {self._rank} waited {self._timeout:g} s for {self._named(late)}, "
            "which did not come to it. Look at what they do, or give connect a longer timeout."
        )
        return DeadlineExceededError(msg, operation=operation, ranks=tuple(late))

    def _key(self, number: int, rank: int) -> str:
        return f"{self._prefix}/{number}/{rank}"
