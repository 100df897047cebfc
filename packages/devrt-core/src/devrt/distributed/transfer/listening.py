"""Where a server listens, and who may connect."""

from __future__ import annotations

import contextlib
import socket
from threading import Event, Lock, Thread
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from devrt._clusters import address_of
from devrt._support import log
from devrt.distributed.security import Security, bound_address, check_loopback
from devrt.distributed.transfer.frames import FrameError, Stream
from devrt.errors import DevrtError, DistributedError, StatusCode

if TYPE_CHECKING:
    from ssl import SSLSocket

__all__ = ["Listener"]

_WHAT = "transfer server"
_HANDSHAKE_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_WILDCARDS = {"0.0.0.0", "::"}  # only reached with allow_remote


class Door(Protocol):
    """What a listener's connections come to, each in its own thread."""

    def admit(self, stream: Stream) -> bool:
        """Return whether a connection may go on: what it begins with says so."""

    def serve(self, stream: Stream) -> None:
        """Answer a connection until it ends."""

    def count(self) -> None:
        """Note that a connection was refused."""


class Listener:
    """One address; each connection to it gets a thread.

    Parameters
    ----------
    address
        ``host:port``; port 0 takes one that is free.
    allow_remote, security
        Whether other machines may reach it, and how both sides know each other.
    door
        Who comes in, what is answered, and where refusals are counted.
    connections
        How many may be open; further ones are closed at once. Of those that have not shown who
        they are, half as many: the oldest is ended, so that silent ones keep nobody out.
    stall
        Seconds that each may take for the next byte.
    """

    def __init__(
        self,
        address: str,
        allow_remote: bool,
        security: Security,
        door: Door,
        connections: int,
        stall: float,
    ) -> None:
        self._host, port = bound_address(address, _WHAT)
        check_loopback(self._host, allow_remote, security, _WHAT)
        security.tls_context(is_server=True)  # files that cannot be used are an error here
        self._security, self._door = security, door
        self._connections, self._stall = connections, stall
        self._lock = Lock()
        self._open: set[Stream] = set()
        self._unadmitted: dict[socket.socket, Stream] = {}  # the oldest first
        self._closing = Event()
        self._socket = _bound(self._host, port)
        Thread(target=self._accept, name="devrt-transfer-accept", daemon=True).start()

    @property
    def address(self) -> str:
        """``host:port``; for every address of the machine its name."""
        host = socket.gethostname() if self._host in _WILDCARDS else self._host
        return address_of(host, self._socket.getsockname()[1])

    def close(self) -> None:
        """End every connection, and take no more. Idempotent."""
        with self._lock:
            if self._closing.is_set():
                return
            self._closing.set()
            left = list(self._open)
        with contextlib.suppress(OSError):  # which not every system does for one that listens
            self._socket.shutdown(socket.SHUT_RDWR)  # ends the thread that accepts
        self._socket.close()
        for stream in left:
            stream.close()

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed, or out of descriptors for now
                self._closing.wait(_PAUSE_SECONDS)
                continue
            if not self._taken(connection):
                self._door.count()
                connection.close()

    def _taken(self, connection: socket.socket) -> bool:
        """Give a connection its thread, unless there are too many."""
        stream = Stream(connection, self._stall)
        with self._lock:
            if len(self._unadmitted) >= max(1, self._connections // 2):
                self._end_oldest()
            if self._closing.is_set() or len(self._open) >= self._connections:
                return False
            self._open.add(stream)
            self._unadmitted[connection] = stream
        thread = Thread(
            target=self._run, args=(connection, stream), name="devrt-transfer", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # the system has no more threads for now
            self._forget(connection, stream)
            return False
        return True

    def _run(self, connection: socket.socket, stream: Stream) -> None:
        used = stream
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            used, secured = self._wrapped(connection, stream)
            if secured is not None:
                self._shake_hands(secured)
            used.deadline = monotonic() + _HANDSHAKE_SECONDS
            if self._door.admit(used):
                with self._lock:
                    self._unadmitted.pop(connection, None)
                used.deadline = None
                self._door.serve(used)
        except (OSError, FrameError):
            pass  # ended by its client, or by `close`, or not begun as one
        except DevrtError as error:  # a file of a certificate that is being replaced
            log.info("a transfer server refused a connection: %s", error)
        finally:
            if self._forget(connection, stream, used) and not self._closing.is_set():
                self._door.count()
            used.release()
            connection.close()

    def _end_oldest(self) -> None:
        """End the connection that has been silent for longest; its own thread closes it."""
        connection = next(iter(self._unadmitted))
        stream = self._unadmitted.pop(connection)
        self._open.discard(stream)
        self._door.count()
        stream.close()

    def _forget(self, connection: socket.socket, *streams: Stream) -> bool:
        """Forget a connection; return whether it was not admitted, and this is the first to say."""
        with self._lock:
            self._open.difference_update(streams)
            return self._unadmitted.pop(connection, None) is not None

    def _wrapped(
        self, connection: socket.socket, stream: Stream
    ) -> tuple[Stream, SSLSocket | None]:
        context = self._security.tls_context(is_server=True)  # of the files as they are now
        if context is None:
            return stream, None
        with self._lock:  # in which nobody ends the connection that is wrapped
            if self._closing.is_set() or connection not in self._unadmitted:
                raise ConnectionError("ended meanwhile")
            wrapped = context.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
            used = Stream(wrapped, self._stall)
            self._open.discard(stream)
            self._open.add(used)
            self._unadmitted[connection] = used
        return used, wrapped

    def _shake_hands(self, wrapped: SSLSocket) -> None:
        wrapped.settimeout(_HANDSHAKE_SECONDS)
        wrapped.do_handshake()
        names = [value for kind, value in _names(wrapped.getpeercert()) if kind == "URI"]
        if not self._security.accepts_names(names):
            raise ConnectionError("a certificate of another job")


def _names(certificate: object) -> list[tuple[str, str]]:
    found = certificate.get("subjectAltName", ()) if isinstance(certificate, dict) else ()
    return [(str(kind), str(value)) for kind, value in found]


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family)
    except OSError as error:
        msg = (
            f"a transfer server cannot listen at {address_of(host, port)}: {error.strerror}. Give "
            "an address of this machine, and port 0 for any that is free."
        )
        raise DistributedError(msg, code=StatusCode.UNAVAILABLE, host=host) from error
