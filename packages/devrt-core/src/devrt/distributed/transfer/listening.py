"""Where a server listens, and who may connect."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic

from devrt.distributed.security import Security, bound_address, check_loopback
from devrt.distributed.transfer.frames import Stream
from devrt.errors import DistributedError, StatusCode

__all__ = ["Listener", "address_of"]

_WHAT = "transfer server"
_HANDSHAKE_SECONDS = 10.0
_PAUSE_SECONDS = 0.1
_WILDCARDS = {"0.0.0.0", "::"}  # only reached with allow_remote


class Listener:
    """One address; each connection to it gets a thread.

    Parameters
    ----------
    address
        ``host:port``; port 0 takes one that is free.
    allow_remote, security
        Whether other machines may reach it, and how both sides know each other.
    serve
        Called in the connection's thread with its stream, which may stall for ``stall`` seconds.
    connections
        How many may be open; further ones are closed at once.
    """

    def __init__(
        self,
        address: str,
        allow_remote: bool,
        security: Security,
        serve: Callable[[Stream], None],
        connections: int,
        stall: float,
    ) -> None:
        self._host, port = bound_address(address, _WHAT)
        check_loopback(self._host, allow_remote, security, _WHAT)
        security.tls_context(is_server=True)  # files that cannot be used are an error here
        self._security, self._serve = security, serve
        self._connections, self._stall = connections, stall
        self._lock = Lock()
        self._open: set[Stream] = set()
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
            with self._lock:
                is_full = self._closing.is_set() or len(self._open) >= self._connections
                stream = Stream(connection, self._stall)
                if not is_full:
                    self._open.add(stream)
            if is_full:
                connection.close()
                continue
            Thread(
                target=self._run, args=(connection, stream), name="devrt-transfer", daemon=True
            ).start()

    def _run(self, connection: socket.socket, stream: Stream) -> None:
        used = stream
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            used = self._secured(connection, stream)
            used.deadline = monotonic() + _HANDSHAKE_SECONDS
            self._serve(used)
        except OSError:
            pass  # ended by its client, or by `close`
        finally:
            with self._lock:
                self._open.discard(stream)
                self._open.discard(used)
            used.release()
            connection.close()

    def _secured(self, connection: socket.socket, stream: Stream) -> Stream:
        context = self._security.tls_context(is_server=True)  # of the files as they are now
        if context is None:
            return stream
        connection.settimeout(_HANDSHAKE_SECONDS)
        wrapped = context.wrap_socket(connection, server_side=True)
        names = [value for kind, value in _names(wrapped.getpeercert()) if kind == "URI"]
        if not self._security.accepts_names(names):
            wrapped.close()
            raise ConnectionError("a certificate of another job")
        used = Stream(wrapped, self._stall)
        with self._lock:
            self._open.discard(stream)
            if self._closing.is_set():
                wrapped.close()
                raise ConnectionError("closed meanwhile")
            self._open.add(used)
        return used


def address_of(host: str, port: int) -> str:
    """Return ``host:port``."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


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
