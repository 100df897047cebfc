"""The side that pulls: connections to one server, opened as they are needed and used again."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Sequence
from threading import Lock
from time import monotonic
from typing import Any, NoReturn

from devrt.distributed.security import Security, bound_address
from devrt.distributed.transfer.frames import PROTOCOL, FrameError, Op, Stream
from devrt.distributed.transfer.reading import (
    INLINE_BYTES,
    REPLY_BYTES,
    Reading,
    Region,
    check,
    grouped,
    read_inline,
)
from devrt.errors import (
    ClosedError,
    DeadlineExceededError,
    DevrtError,
    DistributedError,
    PeerLostError,
    StatusCode,
)

__all__ = ["Peer", "Pull"]

Shape = tuple[int, ...]
_CONNECT_SECONDS = 10.0
_REPLY_SECONDS = 2.0  # for the answer that nothing is offered
_MOST_ADDRESSES = 64
_LEAST_SHARE = 4 << 20  # bytes below which another connection costs more than it brings


class Peer:
    """Another process's server.

    Parameters
    ----------
    address
        Its ``host:port``.
    security
        How both sides know each other.
    streams
        How many connections read at a time, where the server names no addresses for more.
    stall
        Seconds without a byte after which the server counts as stopped.
    """

    def __init__(self, address: str, security: Security, streams: int, stall: float) -> None:
        bound_address(address, "transfer server")
        self.address = address
        self._security, self.stall = security, stall
        self._streams = streams
        self._lock = Lock()
        self._idle: dict[str, list[Stream]] = {}
        self._busy: set[Stream] = set()
        self._is_closed = False
        self._further: list[str] = []
        self.request_bytes = 0

    def pull(
        self, uuid: int, arrays: Sequence[tuple[Shape, Any]], wait: float, end: float | None
    ) -> Pull:
        """Take a lease of what is offered under a number.

        Parameters
        ----------
        uuid, arrays
            The number, and the shape and dtype of each array that is expected.
        wait
            Seconds to wait for the offer.
        end
            The time of the clock `monotonic` by which all must be done, or None.
        """
        until = monotonic() + wait
        stream = self.take(self.address, end)
        with self.failures(f"the pull of uuid {uuid} from {self.address}", [stream]):
            stream.deadline = until + _REPLY_SECONDS
            named = [(shape, str(dtype)) for shape, dtype in arrays]
            ask = {"uuid": uuid, "arrays": named, "inline": INLINE_BYTES}
            while True:
                left = max(until - monotonic(), 0)
                wait = min(left, self.stall / 2)  # an answer must come before it counts as lost
                stream.send(Op.PULL, {**ask, "wait": wait})
                code, reply, size = stream.receive(REPLY_BYTES)
                if code != StatusCode.DEADLINE_EXCEEDED or monotonic() >= until:
                    break
            check(code, reply)
            stream.deadline = end
            return Pull(self, stream, uuid, arrays, reply, size)

    def share(self, size: int) -> tuple[int, int]:
        """Return over how many connections to read so many bytes, and how many in one request."""
        most = len(self._further) or self._streams
        streams = max(1, min(most, size // _LEAST_SHARE))
        each = -(-size // (2 * streams))  # two each, so that a fast one helps a slow one
        return streams, max(1, min(max(each, _LEAST_SHARE), self.request_bytes))

    def data_address(self, number: int) -> str:
        """Return where the connection of a number goes."""
        return self._further[number % len(self._further)] if self._further else self.address

    def take(self, address: str, end: float | None) -> Stream:
        """Return a connection that nobody uses, a new one if there is none."""
        while True:
            with self._lock:
                self._check_open()
                idle = self._idle.get(address)
                stream = idle.pop() if idle else None
                if stream is not None:
                    self._busy.add(stream)
            if stream is None:
                return self._connected(address, end)
            if stream.is_fresh():
                stream.deadline = end
                return stream
            self.drop(stream)

    def give_back(self, stream: Stream, address: str) -> None:
        """Keep a connection for the next pull."""
        with self._lock:
            self._busy.discard(stream)
            if not self._is_closed:
                self._idle.setdefault(address, []).append(stream)
                return
        stream.release()

    def drop(self, stream: Stream) -> None:
        """End a connection, in which a late response may come."""
        with self._lock:
            self._busy.discard(stream)
        stream.close()
        stream.release()

    def close(self) -> None:
        """End every connection; a pull under way raises `ClosedError`. Idempotent."""
        with self._lock:
            self._is_closed = True
            idle = [stream for streams in self._idle.values() for stream in streams]
            self._idle.clear()
            for stream in self._busy:
                stream.close()
        for stream in idle:
            stream.close()
            stream.release()

    def failures(self, what: str, streams: Sequence[Stream] = ()) -> _Failures:
        """Return a context in which failures of connections become errors, and end these."""
        return _Failures(self, what, streams)

    def raise_failed(self, what: str, error: BaseException) -> NoReturn:
        """Raise what a failure of a connection means."""
        if self._is_closed:
            msg = f"{what} was ended: this side closed its connection."
            raise ClosedError(msg, address=self.address) from error
        if isinstance(error, TimeoutError):
            msg = (
                f"DEADLINE_EXCEEDED: {what} took too long: the other process was silent, or slow. "
                "Look at it, or allow more time."
            )
            raise DeadlineExceededError(msg, address=self.address) from error
        if isinstance(error, FrameError):
            msg = (
                f"DATA_LOSS: {what} failed: {error}. Is it a transfer server of this version of "
                "devrt?"
            )
            code = StatusCode.DATA_LOSS
            raise DistributedError(msg, code=code, address=self.address) from error
        msg = (
            f"UNAVAILABLE: {what} failed: {error}. The other process ended, refused the "
            "connection, or closed its server; look at its log."
        )
        raise PeerLostError(msg, address=self.address, processes=[], phases={}) from error

    def _connected(self, address: str, end: float | None) -> Stream:
        made: list[Stream] = []
        with self.failures(f"the connection to {address}", made):
            host, port = bound_address(address, "transfer server")
            left = _CONNECT_SECONDS if end is None else min(end - monotonic(), _CONNECT_SECONDS)
            context = self._security.tls_context(is_server=False)
            plain = socket.create_connection((host, port), max(left, 0.001))
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            try:
                used = (
                    plain if context is None else context.wrap_socket(plain, server_hostname=host)
                )
            except BaseException:
                plain.close()
                raise
            stream = Stream(used, self.stall)
            made.append(stream)
            with self._lock:
                self._busy.add(stream)
                self._check_open()
            stream.deadline = _sooner(end, _CONNECT_SECONDS)
            self._greet(stream)
            stream.deadline = end
            return stream

    def _greet(self, stream: Stream) -> None:
        stream.send(Op.HELLO, {"protocol": PROTOCOL, "token": self._security.token or ""})
        code, reply, _ = stream.receive(REPLY_BYTES)
        check(code, reply)
        addresses, most = reply.get("addresses"), reply.get("request_bytes")
        if not isinstance(addresses, list) or not isinstance(most, int) or most < 1:
            raise FrameError("an answer without its fields")
        self._further = [str(one) for one in addresses[:_MOST_ADDRESSES]]
        self.request_bytes = most

    def _check_open(self) -> None:
        if self._is_closed:
            msg = f"the connection to {self.address} is closed. Connect again."
            raise ClosedError(msg, address=self.address)


class Pull:
    """A lease at another process, under which its blocks are read.

    Attributes
    ----------
    blocks : list
        For each array the start and the shape of each block that is there.
    """

    def __init__(
        self,
        peer: Peer,
        stream: Stream,
        uuid: int,
        arrays: Sequence[tuple[Shape, Any]],
        reply: dict[str, Any],
        size: int,
    ) -> None:
        self._peer, self._stream = peer, stream
        self._arrays, self._inline = arrays, size
        self._what = f"the pull of uuid {uuid} from {peer.address}"
        try:
            self._key = str(reply["lease"])
            pairs = zip(arrays, reply["blocks"], strict=True)
            self.blocks = [[_block(one, shape) for one in held] for (shape, _), held in pairs]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FrameError("an answer without its fields") from error

    def read(self, regions: Sequence[Region]) -> None:
        """Fill the memory of every region, over several connections where they are large."""
        if self._inline:
            with self._peer.failures(self._what, [self._stream]):
                dtypes = [dtype for _, dtype in self._arrays]
                read_inline(self._stream, self._inline, dtypes, self.blocks, regions)
            return
        count, most = self._peer.share(sum(region.target.nbytes for region in regions))
        pieces = [piece for region in regions for piece in region.pieces(most)]
        groups = deque(grouped(pieces, most))
        count = min(count, len(groups))
        numbers = range(count) if count > 1 else ()
        addresses = [self._peer.data_address(number) for number in numbers]
        streams: list[Stream] = []
        with self._peer.failures(self._what, streams):
            for address in addresses:
                streams.append(self._peer.take(address, self._stream.deadline))
            Reading(self._key, groups, streams or [self._stream]).run()
        for stream, address in zip(streams, addresses, strict=True):
            self._peer.give_back(stream, address)

    def finish(self) -> None:
        """End the lease: everything was read. The number is free when this returns."""
        stream, stall = self._stream, self._peer.stall
        with self._peer.failures(self._what, [stream]):
            stream.deadline = _sooner(stream.deadline, stall)  # not anew with each byte
            self._stream.send(Op.END, {"lease": self._key, "done": True})
            check(*self._stream.receive(REPLY_BYTES)[:2])
        self._peer.give_back(self._stream, self._peer.address)

    def abandon(self) -> None:
        """End the connection, and with it the lease. Does nothing to one that has ended."""
        self._peer.drop(self._stream)


def _sooner(end: float | None, seconds: float) -> float:
    """Return the time of the clock `monotonic` after so many seconds, or the end before it."""
    soon = monotonic() + seconds
    return soon if end is None else min(end, soon)


def _block(block: Any, whole: Shape) -> tuple[Shape, Shape]:
    """Return where a block begins and its shape, or raise `ValueError` if it is none."""
    start, shape = (tuple(map(int, numbers)) for numbers in block)
    for begin, size, end in zip(start, shape, whole, strict=True):
        if not 0 <= begin <= begin + size <= end:
            raise ValueError
    return start, shape


class _Failures:
    """Ends connections where a block of code fails, and says what that means."""

    def __init__(self, peer: Peer, what: str, streams: Sequence[Stream]) -> None:
        self._peer, self._what, self._streams = peer, what, streams

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        for stream in self._streams:
            self._peer.drop(stream)
        if isinstance(error, (OSError, FrameError)) and not isinstance(error, DevrtError):
            self._peer.raise_failed(self._what, error)
