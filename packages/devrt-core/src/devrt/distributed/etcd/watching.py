"""The watches of a store, over one stream that is opened again where it ends."""

from __future__ import annotations

import collections
import itertools
import queue
import threading
from collections.abc import Callable, Iterator
from typing import Any

from devrt._support import log
from devrt.distributed.etcd.endpoints import Endpoints, etcd_message
from devrt.distributed.etcd.tokens import Metadata, is_of_token
from devrt.distributed.faults import refused
from devrt.distributed.protocol.messages import grpc_module
from devrt.distributed.store import Watch
from devrt.errors import DevrtError, StatusCode

__all__ = ["Watcher"]

_PAUSE = 0.1
_DENIED = "permission denied"


class Watcher:
    """Keys that are watched; one thread of its own calls the functions.

    After an interruption each watch goes on at the revision after the last it has seen, so no
    change is lost. Where etcd has compacted that away, the keys that are there count as changed.

    Parameters
    ----------
    endpoints
        The members.
    present
        Returns the entries of a range of keys as events.
    patience
        Seconds that a new watch may take to begin.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        present: Callable[[bytes, bytes], list[Any]],
        patience: float,
    ) -> None:
        self._endpoints = endpoints
        self._present = present
        self._patience = patience
        self._lock = threading.Lock()
        self._watches: dict[int, _EtcdWatch] = {}
        self._numbers = itertools.count(1)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stream: Any = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._member = -1
        self._metadata: Metadata = ()
        # Watches that were requested on this stream: a refusal does not say of which it is.
        self._pending: collections.deque[int] = collections.deque()
        endpoints.on_leave = self._leave

    def add(self, key: bytes, end: bytes, on_event: Callable[[Any], object]) -> Watch:
        """Watch a range of keys; return when changes from now on will be seen."""
        watch = _EtcdWatch(self, next(self._numbers), key, end, on_event)
        with self._lock:
            self._watches[watch.number] = watch
            self._ask(watch)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="devrt-etcd-watch", daemon=True
                )
                self._thread.start()
        has_begun = watch.began.wait(self._patience)
        if watch.error:
            watch.close()
            words = f"etcd refuses a watch of {key!r}: {watch.error}. Grant the user's role read."
            raise refused(StatusCode.PERMISSION_DENIED, words)
        if not has_begun or self._closed.is_set():
            watch.close()
            words = f"etcd began no watch of {key!r} within {self._patience:g} s."
            raise refused(StatusCode.UNAVAILABLE, words)
        return watch

    def remove(self, number: int) -> None:
        """End a watch."""
        with self._lock:
            if self._watches.pop(number, None) is not None:
                kind = etcd_message("WatchRequest")
                cancel = etcd_message("WatchCancelRequest")(watch_id=number)
                self._requests.put(kind(cancel_request=cancel))

    def close(self) -> None:
        """End all. Idempotent."""
        self._closed.set()
        with self._lock:
            watches, self._watches = self._watches, {}
            self._requests.put(None)
            if self._stream is not None:
                self._stream.cancel()
        for watch in watches.values():
            watch.began.set()

    def _run(self) -> None:
        grpc = grpc_module()
        while not self._closed.is_set():
            index = self._endpoints.current
            try:
                for response in self._begun(index):
                    self._take(response)
            # ValueError: a closed channel. DevrtError: of what a watch reads of the store.
            except (grpc.RpcError, ValueError, DevrtError) as error:
                if not self._closed.is_set():
                    log.info("the watches at etcd go on at another member: %s", error)
            self._endpoints.leave(index)
            self._closed.wait(_PAUSE)

    def _begun(self, index: int) -> Any:
        """Return a stream to a member that has all the watches."""
        self._metadata = self._endpoints.metadata(index)
        with self._lock:
            self._requests.put(None)  # ends the former stream's
            self._requests = queue.SimpleQueue()
            self._pending.clear()
            for watch in self._watches.values():
                self._ask(watch)
            requests = _until_none(self._requests)
            self._stream = self._endpoints.stream(
                index, "Watch/Watch", requests, "WatchResponse", self._metadata
            )
            if self._closed.is_set():
                self._stream.cancel()
            self._member = index
            return self._stream

    def _leave(self, member: int) -> None:
        """Open the stream anew: a member that is stopped keeps it open, and silent."""
        stream = self._stream
        if member == self._member and stream is not None:
            stream.cancel()

    def _take(self, response: Any) -> None:
        with self._lock:
            number = self._pending.popleft() if response.created else response.watch_id
            watch = self._watches.get(number)
        if watch is None:
            return
        if response.created and not response.canceled and not watch.next:
            watch.next = response.header.revision + 1
        if response.compact_revision:
            self._catch_up(watch, response.compact_revision)
        elif response.canceled:
            self._cancelled(watch, str(response.cancel_reason))
            return
        for event in response.events:
            watch.on_event(event)
            watch.next = event.kv.mod_revision + 1  # one that failed comes again
        if response.created:
            watch.denials = 0
            watch.began.set()

    def _cancelled(self, watch: _EtcdWatch, reason: str) -> None:
        """Open the stream again, at a member that can; where a user may not watch, end the watch.

        Some members say the same of a token that has ended, so the first time another is tried.
        """
        if _DENIED in reason or is_of_token(reason):
            self._endpoints.drop_token(self._metadata)
            watch.denials += 1
            if watch.denials > 1 and not watch.next:
                watch.error = reason
                watch.began.set()
                return
        self._stream.cancel()

    def _ask(self, watch: _EtcdWatch) -> None:
        self._pending.append(watch.number)
        self._requests.put(watch.request())

    def _catch_up(self, watch: _EtcdWatch, revision: int) -> None:
        for event in self._present(watch.key, watch.end):
            watch.on_event(event)
        watch.next = revision
        with self._lock:
            self._ask(watch)


class _EtcdWatch(Watch):
    def __init__(
        self,
        watcher: Watcher,
        number: int,
        key: bytes,
        end: bytes,
        on_event: Callable[[Any], object],
    ) -> None:
        self._watcher = watcher
        self.number = number
        self.key = key
        self.end = end
        self.on_event = on_event
        self.next = 0
        self.began = threading.Event()
        self.denials = 0
        self.error = ""

    def request(self) -> Any:
        create = etcd_message("WatchCreateRequest")(
            key=self.key, range_end=self.end, start_revision=self.next, watch_id=self.number
        )
        return etcd_message("WatchRequest")(create_request=create)

    def close(self) -> None:
        self._watcher.remove(self.number)


def _until_none(requests: queue.SimpleQueue[Any]) -> Iterator[Any]:
    return iter(requests.get, None)
