"""The client of a coordination service, devrt's or jaxlib's: one process's part in a cluster."""

from __future__ import annotations

import secrets
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from devrt._support.record import record
from devrt.distributed.connection import Connection
from devrt.distributed.faults import refused
from devrt.distributed.protocol.messages import message
from devrt.distributed.security import Security, bound_address
from devrt.errors import InvalidArgumentError, StatusCode

__all__ = ["DistributedRuntimeClient", "Times"]

_GRACE = 5.0  # the service's own deadline comes first, and its error says more


@record(frozen=True, slots=True)
class Times:
    """How long calls may take, in seconds.

    Parameters
    ----------
    rpc, connect, shutdown, heartbeat
        A call that waits for nobody; joining; leaving; silence of the service.
    """

    rpc: float
    connect: float
    shutdown: float
    heartbeat: float


class DistributedRuntimeClient:
    """One process's connection to the others of its cluster.

    `get_distributed_runtime_client` makes one and describes the parameters. Any thread may call
    any method. Where a process or the service is lost, calls that wait raise; nothing ends this
    process.
    """

    def __init__(
        self,
        address: str,
        node_id: int,
        times: Times,
        security: Security,
        on_loss: Callable[[Exception], Any] | None = None,
        shutdown_on_destruction: bool = False,
        use_compression: bool = False,
    ) -> None:
        bound_address(address)
        if node_id < 0:
            msg = f"process id {node_id} is negative. Ids are 0 to the number of processes - 1."
            raise InvalidArgumentError(msg, process=node_id)
        self._id = node_id
        self._times = times
        self._connection = Connection(
            address, node_id, secrets.randbits(63), security, times.heartbeat, use_compression
        )
        self._connection.on_loss = on_loss
        how = self._connection.leave if shutdown_on_destruction else self._connection.close
        self._end = weakref.finalize(self, _quietly, how, times.shutdown)

    def connect(self) -> None:
        """Join the cluster; return when every process has.

        Raises
        ------
        DeadlineExceededError
            If processes did not come in time; ``missing`` has their ids.
        DistributedError
            If the service is not there, or refuses this process.
        """
        self._connection.join(self._times.connect)

    def shutdown(self) -> None:
        """Leave the cluster when every process that is alive does. Idempotent.

        Raises
        ------
        DeadlineExceededError
            If others did not leave in time; this process has left nevertheless.
        """
        self._end.detach()
        self._connection.leave(self._times.shutdown)

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """Return the text of a key; wait for it to be set.

        Raises
        ------
        DeadlineExceededError
            If nobody set it in time.
        PeerLostError
            If a process of the cluster is lost meanwhile.
        """
        return self.blocking_key_value_get_bytes(key, timeout_in_ms).decode()

    def blocking_key_value_get_bytes(self, key: str, timeout_in_ms: int) -> bytes:
        """Return the bytes of a key; wait for it to be set."""
        request = message("GetKeyValueRequest")(key=key)
        what = f"waiting for key {key!r}"
        answer = self._connection.wait("GetKeyValue", request, timeout_in_ms / 1000, what)
        return bytes(answer.kv.value)

    def key_value_try_get(self, key: str) -> str:
        """Return the text of a key; ``NOT_FOUND`` if it is not there."""
        return self.key_value_try_get_bytes(key).decode()

    def key_value_try_get_bytes(self, key: str) -> bytes:
        """Return the bytes of a key; ``NOT_FOUND`` if it is not there."""
        answer = self._call("TryGetKeyValue", message("TryGetKeyValueRequest")(key=key))
        return bytes(answer.kv.value)

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        """Set a key; ``ALREADY_EXISTS`` if it is there and may not be overwritten."""
        self.key_value_set_bytes(key, value.encode(), allow_overwrite)

    def key_value_set_bytes(self, key: str, value: bytes, allow_overwrite: bool = False) -> None:
        """Set a key to bytes."""
        entry = message("KeyValueEntry")(key=key, value=bytes(value))
        kind = message("InsertKeyValueRequest")
        self._call("InsertKeyValue", kind(kv=entry, allow_overwrite=allow_overwrite))

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """Return the keys below one and their texts, by key."""
        return [(name, value.decode()) for name, value in self.key_value_dir_get_bytes(key)]

    def key_value_dir_get_bytes(self, key: str) -> list[tuple[str, bytes]]:
        """Return the keys below one and their bytes, by key."""
        request = message("GetKeyValueDirRequest")(directory_key=key)
        rows = self._call("GetKeyValueDir", request).kv
        return [(row.key, bytes(row.value)) for row in rows]

    def key_value_delete(self, key: str) -> None:
        """Delete a key and every key below it."""
        kind = message("DeleteKeyValueRequest")
        self._call("DeleteKeyValue", kind(key=key, is_directory=True))

    def key_value_increment(self, key: str, increment: int) -> int:
        """Add to a key's number, which begins at 0; return the sum."""
        request = message("IncrementKeyValueRequest")(key=key, increment=increment)
        return int(self._call("IncrementKeyValue", request).kv.value)

    def wait_at_barrier(
        self, barrier_id: str, timeout_in_ms: int, process_ids: Sequence[int] | None = None
    ) -> None:
        """Wait until every process, or every one named, has come here.

        Raises
        ------
        DeadlineExceededError
            If some did not come in time; ``missing`` has their ids.
        PeerLostError
            If one that is waited for is lost or leaves.
        """
        request = message("BarrierRequest")(
            barrier_id=barrier_id,
            barrier_timeout_in_ms=timeout_in_ms,
            task_ids=process_ids or (),
            source_task_id=self._id,
            counter=self._connection.round(barrier_id),
        )
        seconds = timeout_in_ms / 1000 + _GRACE
        what = f"waiting at barrier {barrier_id!r}"
        answer = self._connection.wait("Barrier", request, seconds, what)
        self._connection.passed(barrier_id, answer.counter)

    def get_live_nodes(self, process_ids: Sequence[int]) -> dict[int, int]:
        """Return those of some processes that are alive, and the incarnation of each."""
        kind = message("GetAliveTasksRequest")
        answer = self._call(
            "GetAliveTasks", kind(requesting_task_id=self._id, task_ids=process_ids)
        )
        return dict(zip(answer.alive_task_ids, answer.incarnations, strict=False))

    def _call(self, method: str, request: Any) -> Any:
        if not self._connection.is_joined:
            words = f"{method} was called before connect(), or after shutdown()."
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        return self._connection.call(method, request, self._times.rpc)


def _quietly(how: Callable[[float], None], seconds: float) -> None:
    """End a connection where nobody can be given an error."""
    try:
        how(seconds)
    except Exception:  # noqa: BLE001  the service, or Python itself, may be gone
        return
