"""The client of a job: one process's part in it, over whichever engine its address names."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from devrt._support.record import record
from devrt.distributed.arguments import (
    decoded,
    flag,
    milliseconds,
    number,
    octets,
    positive_seconds,
    process,
    processes,
    text,
)
from devrt.distributed.direct.link import DirectLink
from devrt.distributed.engines import Location, check_security, location_of
from devrt.distributed.forking import ForkedSession, renounced_by_children
from devrt.distributed.link import Link
from devrt.distributed.security import Security
from devrt.distributed.session import Session
from devrt.distributed.wire_session import WireSession

__all__ = ["DistributedRuntimeClient", "Times"]


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

    Attributes
    ----------
    service_process : int or None
        The process whose end is that of the service, where that is known to be another one.
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
        num_processes: int | None = None,
    ) -> None:
        location = location_of(text(address, "address"))
        node_id = process(node_id, "node_id")
        positive_seconds(times.heartbeat, "heartbeat_timeout")
        self.service_process: int | None = None
        self._times = times
        self._size = num_processes
        self._session: Session = _session(
            location, node_id, times, security, on_loss, use_compression
        )
        self._parents: Session | None = None  # kept: its end would not be without effects
        leave = functools.partial(self._session.leave, times.shutdown)
        how = leave if shutdown_on_destruction else self._session.close
        self._end = weakref.finalize(self, _quietly, how)
        renounced_by_children(self)

    def renounce(self) -> None:
        """Give up the connection, which is another process's: called in the child of a fork."""
        self._end.detach()
        self._parents, self._session = self._session, ForkedSession()

    def connect(self) -> None:
        """Join the cluster; return when every process has.

        Raises
        ------
        DeadlineExceededError
            If processes did not come in time; ``missing`` has their ids.
        DistributedError
            If the service is not there, or refuses this process.
        """
        self._session.join(self._times.connect, self._size)

    def shutdown(self) -> None:
        """Leave the cluster when every process that is alive does. Idempotent.

        Raises
        ------
        DeadlineExceededError
            If others did not leave in time; this process has left nevertheless.
        """
        self._end.detach()
        self._session.leave(self._times.shutdown)

    def blocking_key_value_get(self, key: str, timeout_in_ms: int) -> str:
        """Return the text of a key; wait for it to be set.

        Raises
        ------
        DeadlineExceededError
            If nobody set it in time.
        PeerLostError
            If a process of the cluster is lost meanwhile.
        """
        return decoded(self.blocking_key_value_get_bytes(key, timeout_in_ms), key)

    def blocking_key_value_get_bytes(self, key: str, timeout_in_ms: int) -> bytes:
        """Return the bytes of a key; wait for it to be set."""
        seconds = milliseconds(timeout_in_ms) / 1000
        return self._session.awaited(text(key, "key"), seconds)

    def key_value_try_get(self, key: str) -> str:
        """Return the text of a key; ``NOT_FOUND`` if it is not there."""
        return decoded(self.key_value_try_get_bytes(key), key)

    def key_value_try_get_bytes(self, key: str) -> bytes:
        """Return the bytes of a key; ``NOT_FOUND`` if it is not there."""
        return self._session.get(text(key, "key"))

    def key_value_set(self, key: str, value: str, allow_overwrite: bool = False) -> None:
        """Set a key; ``ALREADY_EXISTS`` if it is there and may not be overwritten."""
        overwrite = flag(allow_overwrite, "allow_overwrite")
        self._session.set(text(key, "key"), text(value, "value").encode(), overwrite)

    def key_value_set_bytes(self, key: str, value: bytes, allow_overwrite: bool = False) -> None:
        """Set a key to bytes."""
        overwrite = flag(allow_overwrite, "allow_overwrite")
        self._session.set(text(key, "key"), octets(value), overwrite)

    def key_value_dir_get(self, key: str) -> list[tuple[str, str]]:
        """Return the keys below one and their texts, by key."""
        return [(name, decoded(value, name)) for name, value in self.key_value_dir_get_bytes(key)]

    def key_value_dir_get_bytes(self, key: str) -> list[tuple[str, bytes]]:
        """Return the keys below one and their bytes, by key."""
        return self._session.directory(text(key, "key"))

    def key_value_delete(self, key: str) -> None:
        """Delete a key and every key below it."""
        self._session.delete(text(key, "key"))

    def key_value_increment(self, key: str, increment: int) -> int:
        """Add to a key's number, which begins at 0; return the sum."""
        return self._session.increment(text(key, "key"), number(increment, "increment"))

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
        seconds = milliseconds(timeout_in_ms) / 1000
        expected = () if process_ids is None else processes(process_ids)
        self._session.barrier(text(barrier_id, "barrier_id"), seconds, expected)

    def get_live_nodes(self, process_ids: Sequence[int]) -> dict[int, int]:
        """Return those of some processes that are alive, and the incarnation of each."""
        return self._session.alive(processes(process_ids))


def _session(
    location: Location,
    process: int,
    times: Times,
    security: Security,
    on_loss: Callable[[Exception], Any] | None,
    use_compression: bool,
) -> Session:
    incarnation = int.from_bytes(os.urandom(8), "little") >> 1
    check_security(location, security)
    if location.engine == "etcd":
        from devrt.distributed.etcd.opening import opened  # no other engine needs it
        from devrt.distributed.stored.session import StoredSession

        store = opened(location, security, min(times.rpc, times.connect))
        return StoredSession(store, process, incarnation, times.heartbeat, on_loss)
    given = (location.hosts[0], process, incarnation, security, times.heartbeat)

    def over_grpc() -> Link:
        from devrt.distributed.connection import Connection  # only for jaxlib's, or certificates

        made = Connection(*given, use_compression)
        made.on_loss = on_loss
        return made

    if security.has_certificates:
        return WireSession(None, over_grpc, process, times.rpc)
    direct = DirectLink(*given)
    direct.on_loss = on_loss
    return WireSession(direct, over_grpc, process, times.rpc)


def _quietly(how: Callable[[], None]) -> None:
    """End a connection where nobody can be given an error."""
    try:
        how()
    except Exception:  # noqa: BLE001  the service, or Python itself, may be gone
        return
