"""A job over a coordination service: each call is one of its protocol."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from devrt.distributed import rules
from devrt.distributed.direct.stream import ForeignError
from devrt.distributed.faults import refused
from devrt.distributed.keyspace import normalised
from devrt.distributed.link import Link
from devrt.distributed.protocol.messages import message
from devrt.distributed.session import Session
from devrt.errors import DeadlineExceededError, StatusCode

__all__ = ["WireSession"]

_LARGEST = (2 << 30) - (1 << 20)  # what protobuf can put into a message
_MOST_GRACE = 5.0


class WireSession(Session):
    """One process's calls to a service, devrt's or jaxlib's.

    Parameters
    ----------
    direct
        The link to devrt's service; None where there can be none.
    over_grpc
        Makes the link to another.
    process
        The number of this process.
    seconds
        How long a call that waits for nobody may take.
    """

    def __init__(
        self,
        direct: Link | None,
        over_grpc: Callable[[], Link],
        process: int,
        seconds: float,
    ) -> None:
        self._connection = direct or over_grpc()
        self._over_grpc = over_grpc
        self._process = process
        self._seconds = seconds

    def join(self, seconds: float, size: int | None = None) -> None:
        """Join; return when every process has. A job of another size is refused."""
        end = time.monotonic() + seconds
        try:
            self._connection.join(seconds, size)
        except ForeignError as error:
            self._connection.close()
            self._connection = self._over_grpc()
            self._join_foreign(max(0, end - time.monotonic()), size, error)

    def _join_foreign(self, seconds: float, size: int | None, found: ForeignError) -> None:
        """Join jaxlib's service, unless what listens there is none."""
        try:
            self._connection.join(seconds, size)
        except DeadlineExceededError as error:
            if vars(error).get("missing"):
                raise
            words = f"{error.message} No coordination service may be there: {found}."
            raise refused(StatusCode.DEADLINE_EXCEEDED, words) from error

    def leave(self, seconds: float) -> None:
        """Leave when every process that is alive does, and close. Idempotent."""
        self._connection.leave(seconds, _grace(seconds))

    def close(self) -> None:
        """End without a word to the others. Idempotent."""
        self._connection.close()

    def awaited(self, key: str, seconds: float) -> bytes:
        """Return a key's value, once it is there."""
        request = message("GetKeyValueRequest")(key=key)
        what = f"waiting for key {key!r}"
        try:
            answer = self._connection.wait("GetKeyValue", request, seconds, what)
        except DeadlineExceededError as error:  # the time is this side's: nobody answered
            words = f"key {normalised(key)!r} was not set within {seconds:g} s."
            raise refused(StatusCode.DEADLINE_EXCEEDED, words) from error
        return bytes(answer.kv.value)

    def get(self, key: str) -> bytes:
        """Return a key's value; ``NOT_FOUND`` if it is not there."""
        answer = self._call("TryGetKeyValue", message("TryGetKeyValueRequest")(key=key))
        return bytes(answer.kv.value)

    def set(self, key: str, value: bytes, overwrite: bool) -> None:
        """Set a key; without ``overwrite`` one that is there is ``ALREADY_EXISTS``."""
        most = self._connection.message_bytes
        rules.check_length(len(key) + len(value), _LARGEST if most is None else most)
        entry = message("KeyValueEntry")(key=key, value=value)
        kind = message("InsertKeyValueRequest")
        self._call("InsertKeyValue", kind(kv=entry, allow_overwrite=overwrite))

    def directory(self, key: str) -> list[tuple[str, bytes]]:
        """Return the keys below one and their values, by key."""
        request = message("GetKeyValueDirRequest")(directory_key=key)
        rows = self._call("GetKeyValueDir", request).kv
        return [(row.key, bytes(row.value)) for row in rows]

    def delete(self, key: str) -> None:
        """Delete a key and every key below it."""
        request = message("DeleteKeyValueRequest")(key=key, is_directory=True)
        self._call("DeleteKeyValue", request)

    def increment(self, key: str, by: int) -> int:
        """Add to a key's number, which begins at 0; return the sum."""
        request = message("IncrementKeyValueRequest")(key=key, increment=by)
        return int(self._call("IncrementKeyValue", request).kv.value)

    def barrier(self, name: str, seconds: float, processes: Sequence[int]) -> None:
        """Wait until every process, or every one given, has come."""
        request = message("BarrierRequest")(
            barrier_id=name,
            barrier_timeout_in_ms=round(seconds * 1000),
            task_ids=processes,
            source_task_id=self._process,
            counter=self._connection.round(name),
        )
        what = f"waiting at barrier {name!r}"
        answer = self._connection.wait("Barrier", request, seconds + _grace(seconds), what)
        self._connection.passed(name, answer.counter)

    def alive(self, processes: Sequence[int]) -> dict[int, int]:
        """Return those of some processes that are alive, and the incarnation of each."""
        kind = message("GetAliveTasksRequest")
        request = kind(requesting_task_id=self._process, task_ids=processes)
        answer = self._call("GetAliveTasks", request)
        return dict(zip(answer.alive_task_ids, answer.incarnations, strict=False))

    def _call(self, method: str, request: Any) -> Any:
        if not self._connection.is_joined:
            words = f"{method} was called before connect(), or after shutdown()."
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        return self._connection.call(method, request, self._seconds)


def _grace(seconds: float) -> float:
    """Return how much longer to wait for the service: its error says more than a deadline here."""
    return min(1 + seconds / 4, _MOST_GRACE)
