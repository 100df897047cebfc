"""Keys and bytes in etcd."""

from __future__ import annotations

import itertools
import queue
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from devrt.distributed.etcd.endpoints import Endpoints, etcd_message
from devrt.distributed.etcd.leases import EtcdLease
from devrt.distributed.etcd.tokens import Login
from devrt.distributed.etcd.values import PIECE, Pieces, encoded, pieces_of
from devrt.distributed.etcd.watching import Watcher
from devrt.distributed.faults import refused
from devrt.distributed.numerals import added
from devrt.distributed.security import Security
from devrt.distributed.store import Entry, Lease, Store, Watch
from devrt.errors import StatusCode

__all__ = ["EtcdStore"]

_PATIENCE = 30.0
_AT_A_TIME = 16  # pieces in one answer


class EtcdStore(Store):
    """Keys below a prefix of an etcd cluster (3.4 or later).

    A call goes to another member where one does not answer. A transaction whose answer was lost is
    made again and finds by a mark of its own whether it was made, so none is made twice.

    Parameters
    ----------
    addresses
        Each member's ``host:port``.
    prefix
        What the names of the keys in etcd begin with.
    security
        Certificates, where the cluster wants them.
    patience
        Seconds that a call tries all members.
    login
        The user, where the cluster wants one.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        prefix: str,
        security: Security | None = None,
        patience: float = _PATIENCE,
        login: Login | None = None,
    ) -> None:
        self._endpoints = Endpoints(addresses, security or Security(), patience, login)
        self._keys, self._pieces = f"{prefix}/k/", f"{prefix}/p/"
        self._marks = f"{prefix}/m/{secrets.token_hex(8)}/"
        self._mark_numbers = itertools.count()
        self._free_marks: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._watcher = Watcher(self._endpoints, self._present, patience)

    def get(self, key: str) -> Entry | None:
        """Return a key's entry; None if it is not there."""
        answer = self._range(self._name(key))
        return self._entry(answer.kvs[0]) if answer.kvs else None

    def range(self, prefix: str) -> list[Entry]:
        """Return the entries whose keys begin so, by key."""
        name = self._name(prefix)
        return [self._entry(one) for one in self._range(name, _after(name)).kvs]

    def count(self, prefix: str) -> int:
        """Return how many keys begin so."""
        name = self._name(prefix)
        return int(self._range(name, _after(name), count_only=True).count)

    def set(self, key: str, value: bytes, lease: Lease | None = None) -> int:
        """Set a key, whether it is there or not; return the version."""
        number = _number(lease)
        request = etcd_message("PutRequest")(
            key=self._name(key), value=self._kept(value, number), lease=number, prev_kv=True
        )
        answer = self._endpoints.call("KV/Put", request)
        self._drop([answer.prev_kv])
        return int(answer.header.revision)

    def delete(self, key: str, prefix: bool = False) -> int:
        """Delete a key, or all that begin so; return how many there were."""
        name = self._name(key)
        end = _after(name) if prefix else b""
        request = etcd_message("DeleteRangeRequest")(key=name, range_end=end, prev_kv=True)
        answer = self._endpoints.call("KV/DeleteRange", request)
        self._drop(answer.prev_kvs)
        return int(answer.deleted)

    def increment(self, key: str, by: int = 1, lease: Lease | None = None) -> int:
        """Add to the number in a key's decimal text, from 0 where it is not there."""
        while True:
            former = self.get(key)
            version, value = (0, None) if former is None else (former.version, former.value)
            total = added(key, value, by)
            if self.transaction({key: version}, {key: str(total).encode()}, lease):
                return total

    def transaction(
        self,
        expected: Mapping[str, int],
        changes: Mapping[str, bytes | None],
        lease: Lease | None = None,
    ) -> bool:
        """Make all changes if every expected key has its version, else none; return which."""
        number = _number(lease)
        with self._mark() as mark:
            done = secrets.token_bytes(16)
            put = etcd_message("PutRequest")(key=mark, value=done, lease=number)
            request = etcd_message("TxnRequest")(
                compare=[self._compare(key, version) for key, version in expected.items()],
                success=[
                    *(self._change(key, value, number) for key, value in changes.items()),
                    etcd_message("RequestOp")(request_put=put),
                ],
                failure=[_request(etcd_message("RangeRequest")(key=mark))],
            )
            answer = self._endpoints.call("KV/Txn", request)
        if answer.succeeded:
            self._drop(_former(answer))
            return True
        found = answer.responses[0].response_range.kvs
        was_made = bool(found) and found[0].value == done
        if not was_made:
            self._drop(one.request_put for one in request.success[:-1])
        return was_made

    def watch(self, key: str, on_change: Callable[[Entry], object], prefix: bool = False) -> Watch:
        """Call a function with each change of a key, or of all that begin so, from now on."""
        name = self._name(key)

        def on_event(event: Any) -> None:
            entry = self._removed(event.kv) if event.type else self._entry(event.kv)
            on_change(entry)

        return self._watcher.add(name, _after(name) if prefix else b"", on_event)

    def lease(self, seconds: float) -> Lease:
        """Return a new lease that ends after so long without being renewed."""
        return EtcdLease.granted(self._endpoints, seconds)

    def shared_lease(self, number: int, seconds: float) -> Lease:
        """Return another process's lease, to renew it and to bind keys to it."""
        return EtcdLease(self._endpoints, number, seconds)

    def close(self) -> None:
        """End watches and connections; the keys stay. Idempotent."""
        self._watcher.close()
        self._endpoints.close()

    def _name(self, key: str) -> bytes:
        try:
            return f"{self._keys}{key}".encode()
        except UnicodeEncodeError as error:
            words = f"key {key!r} is no text that UTF-8 has. Give another key."
            raise refused(StatusCode.INVALID_ARGUMENT, words) from error

    def _range(self, name: bytes, end: bytes = b"", **how: Any) -> Any:
        request = etcd_message("RangeRequest")(key=name, range_end=end, **how)
        return self._endpoints.call("KV/Range", request)

    def _entry(self, found: Any) -> Entry:
        kept = found.value
        pieces = pieces_of(kept)
        value = kept[1:] if pieces is None else self._joined(pieces, found.mod_revision)
        return Entry(self._key(found), value, found.mod_revision)

    def _removed(self, found: Any) -> Entry:
        return Entry(self._key(found), None, found.mod_revision)

    def _key(self, found: Any) -> str:
        return str(found.key.decode()[len(self._keys) :])

    def _kept(self, value: bytes, lease: int) -> bytes:
        """Return what is kept under a key; the pieces of a large value are written first."""
        if len(value) <= PIECE:
            return encoded(value)
        pieces = Pieces.of(value)
        for key, piece in pieces.split(self._pieces, value):
            request = etcd_message("PutRequest")(key=key.encode(), value=piece, lease=lease)
            self._endpoints.call("KV/Put", request)
        return pieces.record()

    def _joined(self, pieces: Pieces, revision: int) -> bytes:
        """Read the pieces as they were when the value was set: it may be deleted meanwhile."""
        folder = pieces.folder(self._pieces)
        end, found = _after(folder.encode()), []
        for first in range(0, pieces.count, _AT_A_TIME):
            start = f"{folder}{first:08d}".encode()
            answer = self._range(start, end, limit=_AT_A_TIME, revision=revision)
            found += [one.value for one in answer.kvs]
        value = b"".join(found)
        if len(value) != pieces.size:
            words = f"a value has {len(value)} of its {pieces.size} bytes in etcd."
            raise refused(StatusCode.DATA_LOSS, words)
        return value

    def _drop(self, former: Any) -> None:
        """Delete the pieces of values that are no more."""
        for one in former:
            pieces = pieces_of(one.value)
            if pieces is not None:
                name = pieces.folder(self._pieces).encode()
                kind = etcd_message("DeleteRangeRequest")
                self._endpoints.call("KV/DeleteRange", kind(key=name, range_end=_after(name)))

    def _compare(self, key: str, version: int) -> Any:
        kind = etcd_message("Compare")
        if version:
            return kind(target=kind.MOD, key=self._name(key), mod_revision=version)
        return kind(target=kind.CREATE, key=self._name(key), create_revision=0)

    def _change(self, key: str, value: bytes | None, lease: int) -> Any:
        kind, name = etcd_message("RequestOp"), self._name(key)
        if value is None:
            delete = etcd_message("DeleteRangeRequest")(key=name, prev_kv=True)
            return kind(request_delete_range=delete)
        put = etcd_message("PutRequest")(
            key=name, value=self._kept(value, lease), lease=lease, prev_kv=True
        )
        return kind(request_put=put)

    @contextmanager
    def _mark(self) -> Iterator[bytes]:
        """Give a key that no other transaction marks meanwhile."""
        try:
            mark = self._free_marks.get_nowait()
        except queue.Empty:
            mark = f"{self._marks}{next(self._mark_numbers)}"
        try:
            yield mark.encode()
        finally:
            self._free_marks.put(mark)

    def _present(self, key: bytes, end: bytes) -> list[Any]:
        return [etcd_message("Event")(kv=one) for one in self._range(key, end).kvs]


def _after(name: bytes) -> bytes:
    """Return the first name after all that begin so; a name ends in no byte 255, as text has."""
    return name[:-1] + bytes([name[-1] + 1])


def _number(lease: Lease | None) -> int:
    assert lease is None or isinstance(lease, EtcdLease)
    return 0 if lease is None else lease.number


def _request(one: Any) -> Any:
    return etcd_message("RequestOp")(request_range=one)


def _former(answer: Any) -> Iterator[Any]:
    """Give the values that a transaction replaced or deleted."""
    for one in answer.responses:
        yield from one.response_delete_range.prev_kvs
        yield one.response_put.prev_kv
