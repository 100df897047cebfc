"""The port of a service: direct connections, and those of HTTP/2, which are passed on to gRPC.

A direct connection has one request at a time, and a heartbeat beside the one that polls for losses.
"""

from __future__ import annotations

import asyncio
import hmac
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from devrt.distributed import rules
from devrt.distributed.calls import Calls
from devrt.distributed.direct.frames import (
    HEADER,
    HELLO,
    NUMBERS,
    frame,
    frame_of_error,
    hello_of_service,
    read_hello,
)
from devrt.distributed.direct.relay import Relay
from devrt.distributed.direct.transit import Transit
from devrt.distributed.faults import refused
from devrt.distributed.protocol.contract import check_contract
from devrt.distributed.protocol.messages import METHODS, message, parsed
from devrt.errors import DevrtError, StatusCode

__all__ = ["DirectServer"]

_OK = 0
_BACKLOG = 4096  # all processes of a job come at once
# How many of them are taken before what the first have sent is read: fewer than may be unadmitted.
_TAKEN_AT_ONCE = 32
_POLL, _BEAT = NUMBERS["PollForError"], NUMBERS["Heartbeat"]
_HTTP2, _TLS = b"PRI *", b"\x16\x03"  # how connections begin that are gRPC's
_TOKEN_BYTES = 8192
_ADMISSION_SECONDS = 10.0
_UNREAD_BYTES = 1 << 16  # of responses, beside which a connection asks for no more
_UNADMITTED = 256  # connections at a time: a client sends its first message at once


class DirectServer:
    """Listens for the service, in its thread.

    Parameters
    ----------
    calls
        What answers direct connections.
    token
        What the first message of each direct connection must have; empty for none.
    is_certified
        Whether connections need certificates: then all are gRPC's.
    resumes
        Whether another service may carry on after this one.
    message_bytes
        The largest message.
    connections
        How many connections may be open.
    transit_bytes
        What messages under way may take up: those that come, and those that go.
    refuse
        Called with each error that is sent, to count it.
    """

    def __init__(
        self,
        calls: Calls,
        token: str,
        is_certified: bool,
        resumes: bool,
        message_bytes: int,
        connections: int,
        transit_bytes: int,
        refuse: Callable[[DevrtError], None],
    ) -> None:
        self._handlers = [
            (getattr(calls, name), partial(parsed, message(f"{name}Request"))) for name in METHODS
        ]
        self._token = token.encode()
        self._of_grpc = _TLS if is_certified else _HTTP2
        self._is_certified = is_certified
        self.hello = hello_of_service(resumes, message_bytes)
        self._message_bytes = message_bytes
        self._connections = min(connections, _descriptors() // 3)  # one that is passed on has three
        self._refuse = refuse
        self._open: set[_Connection] = set()
        self._unadmitted: dict[_Connection, None] = {}  # the oldest first
        self._relayed: dict[str, _Connection] = {}  # by the name that gRPC knows them by
        self.incoming: Transit[_Connection] = Transit(transit_bytes, _Connection.end_slow)
        self.outgoing: Transit[_Connection] = Transit(transit_bytes, _Connection.end_slow)
        self._servers: list[asyncio.Server] = []
        self._is_closed = False
        self._grpc_path = ""

    async def start(self, sockets: Sequence[socket.socket], grpc_path: str) -> None:
        """Listen at bound sockets; what is gRPC's goes to the socket at a path."""
        self._grpc_path = grpc_path
        loop = asyncio.get_running_loop()
        for one in sockets:
            made = loop.create_server(lambda: _Connection(self), sock=one, backlog=_TAKEN_AT_ONCE)
            self._servers.append(await made)
            one.listen(_BACKLOG)

    def close(self) -> None:
        """Close every connection, and take no more."""
        self._is_closed = True  # what the system has accepted may be shown to `opened` later
        for server in self._servers:
            server.close()
        for connection in list(self._open):
            connection.close()

    def opened(self, connection: _Connection) -> bool:
        """Take a connection in, unless there are too many, or the service ends."""
        if self._is_closed:
            return False
        if len(self._unadmitted) >= max(1, min(_UNADMITTED, self._connections // 2)):
            next(iter(self._unadmitted)).end_unadmitted()
        if len(self._open) >= self._connections:
            return False
        self._open.add(connection)
        self._unadmitted[connection] = None
        return True

    def admitted(self, connection: _Connection) -> None:
        """Note that a connection has shown the token."""
        self._unadmitted.pop(connection, None)

    def is_for_grpc(self, data: bytes | bytearray) -> bool:
        """Return whether what a connection begins with is gRPC's."""
        return data.startswith(self._of_grpc)

    def relay(self, connection: _Connection, transport: Any, data: bytes) -> Relay:
        """Pass a connection on to gRPC; a call on it that has the token admits it."""
        made = Relay(transport, self._grpc_path, data, connection.connection_lost)
        if made.name:
            self._relayed[made.name] = connection
        else:  # a system on which gRPC cannot tell it from others
            connection.admit()
        return made

    def admit_relayed(self, name: str) -> None:
        """Note that a call of gRPC's on a connection had the token."""
        connection = self._relayed.pop(name, None)
        if connection is not None:
            connection.admit()

    def closed(self, connection: _Connection) -> None:
        """Forget a connection."""
        self._open.discard(connection)
        self._unadmitted.pop(connection, None)
        self._relayed.pop(connection.relayed_as, "")
        self.incoming.note(connection, 0)
        self.outgoing.note(connection, 0)

    def check_hello(self, payload: bytes) -> None:
        """Refuse a first message without the token, or of another version."""
        version, token = read_hello(payload)
        if self._is_certified:
            raise refused(StatusCode.UNAUTHENTICATED, "this service needs certificates.")
        if version < 0 or not hmac.compare_digest(token, self._token):
            needs = "the job's token, and another was given, or none" if self._token else "no token"
            words = f"this service needs {needs}. Give every process the same."
            raise refused(StatusCode.UNAUTHENTICATED, words)
        check_contract(version)

    def is_too_long(self, size: int) -> bool:
        """Return whether a message is longer than any may be."""
        return size > self._message_bytes

    async def answer(self, number: int, payload: bytes) -> bytes:
        """Return the response to a request."""
        try:
            if number >= len(self._handlers):
                raise refused(StatusCode.UNIMPLEMENTED, f"there is no method {number}.")
            call, parse = self._handlers[number]
            return frame(_OK, (await call(parse(payload))).SerializeToString())
        except DevrtError as error:
            return self.refusal(error)

    def refusal_of_length(self, size: int) -> bytes:
        """Count a message that is too long, and return the response."""
        return self.refusal(rules.too_long(size, self._message_bytes))

    def refusal(self, error: DevrtError) -> bytes:
        """Count an error, and return the response that has it."""
        self._refuse(error)
        return frame_of_error(error)


class _Connection(asyncio.Protocol):
    def __init__(self, server: DirectServer) -> None:
        self._server = server
        self._transport: Any = None
        self._bytes = bytearray()
        self._to_skip = self._too_long = 0
        self._is_admitted = False
        self._is_polling = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._admission: asyncio.TimerHandle | None = None
        self.relayed_as = ""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if not self._server.opened(self):
            transport.close()
            return
        loop = asyncio.get_running_loop()
        self._admission = loop.call_later(_ADMISSION_SECONDS, self.end_unadmitted)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        if self._admission is not None:
            self._admission.cancel()
        for task in self._tasks:  # its client waits no more
            task.cancel()

    def close(self) -> None:
        self._transport.close()

    def admit(self) -> None:
        """Take the connection as one of the job's."""
        self._is_admitted = True
        self._server.admitted(self)
        if self._admission is not None:
            self._admission.cancel()

    def data_received(self, data: bytes) -> None:
        if self._to_skip:
            skipped = min(self._to_skip, len(data))
            self._to_skip -= skipped
            data = data[skipped:]
            self._refuse_length()
        self._bytes += data
        self._take_whole()
        self._server.incoming.note(self, len(self._bytes))

    def pause_writing(self) -> None:
        self._server.outgoing.note(self, self._transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        self._server.outgoing.note(self, 0)

    def _take_whole(self) -> None:
        """Take what has come, as far as it is whole messages."""
        if len(self._bytes) < HEADER.size:
            return
        if not self._is_admitted and self._server.is_for_grpc(self._bytes):
            self._pass_on()
            return
        size, number = HEADER.unpack_from(self._bytes)
        if not self._is_admitted and (number != HELLO or size > _TOKEN_BYTES):
            self.end_unadmitted()
            return
        if self._server.is_too_long(size):
            self._too_long = size
            self._to_skip = HEADER.size + size - len(self._bytes)
            self._bytes.clear()
            self._refuse_length()
            return
        end = HEADER.size + size
        if len(self._bytes) < end:
            return
        payload = bytes(self._bytes[HEADER.size : end])
        del self._bytes[:end]
        self._take(number, payload)
        if self._bytes and not self._transport.is_closing():
            self._take_whole()  # a poll and the first heartbeat come together

    def _pass_on(self) -> None:
        made = self._server.relay(self, self._transport, bytes(self._bytes))
        self.relayed_as = made.name
        self._bytes.clear()
        self._transport.set_protocol(made)

    def _take(self, number: int, payload: bytes) -> None:
        if not self._is_admitted:
            self._admit(payload)
        elif self._transport.get_write_buffer_size() > _UNREAD_BYTES:
            self._end_unread()
        elif self._is_free_for(number):
            self._is_polling = self._is_polling or number == _POLL
            task = asyncio.get_running_loop().create_task(self._answer(number, payload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:  # a client waits for each response
            self._transport.close()

    def _is_free_for(self, number: int) -> bool:
        """Return whether a request is the only one, or a heartbeat beside the poll."""
        allowed = 1 if self._is_polling and number == _BEAT else 0
        return len(self._tasks) <= allowed

    def _end_unread(self) -> None:
        """End a connection that asks and does not read: what it is sent would be kept here."""
        words = "a connection made another request before it had read the last response."
        self._server.refusal(refused(StatusCode.RESOURCE_EXHAUSTED, words))
        self._transport.abort()

    def end_slow(self) -> None:
        """End a connection whose message has been under way the longest: there are too many."""
        words = "messages under way take up too much, and this one has been for the longest time."
        self._server.refusal(refused(StatusCode.RESOURCE_EXHAUSTED, words))
        self._transport.abort()

    def end_unadmitted(self) -> None:
        """End a connection that is no client's: it did not begin as one, or not soon enough."""
        if not self._is_admitted and not self._transport.is_closing():
            self._server.closed(self)
            words = "a connection did not begin with the job's token."
            self._server.refusal(refused(StatusCode.UNAUTHENTICATED, words))
            self._transport.close()

    def _refuse_length(self) -> None:
        """Answer to a message that is too long, once its sender has sent it all."""
        if self._to_skip <= 0:
            self._transport.write(self._server.refusal_of_length(self._too_long))

    def _admit(self, payload: bytes) -> None:
        try:
            self._server.check_hello(payload)
        except DevrtError as error:
            self._transport.write(self._server.refusal(error))
            self._transport.close()
            return
        self.admit()
        self._transport.write(self._server.hello)

    async def _answer(self, number: int, payload: bytes) -> None:
        self._transport.write(await self._server.answer(number, payload))


def _descriptors() -> int:
    """Return how many files this process may have open."""
    try:
        import resource  # not on every system
    except ImportError:
        return 1 << 20
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 20 if limit == resource.RLIM_INFINITY else limit
