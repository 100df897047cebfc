"""The embedded coordination service, in a thread of this process: jaxlib's clients join it too."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from tempfile import TemporaryDirectory
from typing import Any

from devrt._clusters import address_of
from devrt.distributed.calls import Calls
from devrt.distributed.cluster import Cluster, Limits
from devrt.distributed.direct.server import DirectServer
from devrt.distributed.faults import refused, to_wire
from devrt.distributed.journal import Journal
from devrt.distributed.link import BEATS
from devrt.distributed.ports import bound_sockets
from devrt.distributed.protocol.contract import check_contract, contract_of
from devrt.distributed.protocol.messages import (
    ERROR_KEY,
    LIMIT_KEY,
    METHODS,
    RESUMES_KEY,
    SERVICE,
    STATUS,
    grpc_module,
    message,
)
from devrt.distributed.security import Bounds, Security, bound_address, check_loopback
from devrt.errors import DevrtError, DistributedError, StatusCode

__all__ = ["DistributedRuntimeService"]

_TICK = 0.05
_START_SECONDS = 30.0
_STOP_SECONDS = 2.0
_ROUNDS_TO_CLOSE = 4  # of the loop: from a connection that is accepted to its end
_OFFERING = {"RegisterTask"}  # calls whose answers say what the service is like


class DistributedRuntimeService:
    """The service that keys, barriers and heartbeats of a cluster go through.

    It runs until ``shutdown``. `get_distributed_runtime_service` describes the parameters.

    Attributes
    ----------
    address : str
        Where clients find it; of port 0, with the port that was free.
    """

    def __init__(
        self,
        address: str,
        num_nodes: int,
        limits: Limits,
        recoverable: bool = False,
        allow_remote: bool = False,
        security: Security | None = None,
        bounds: Bounds | None = None,
        journal: str | None = None,
    ) -> None:
        self._grpc = grpc_module()
        self._security = security or Security()
        self._bounds = bounds or Bounds()
        self._host, self._port = bound_address(address)
        check_loopback(self._host, allow_remote, self._security)
        self._certified = self._security.has_certificates
        if num_nodes < 1:
            words = f"a cluster has at least one process, and num_nodes is {num_nodes}."
            raise refused(StatusCode.INVALID_ARGUMENT, words)
        self._cluster = Cluster(num_nodes, limits, recoverable)
        self._refusals: dict[str, int] = {}
        self._stopping = asyncio.Event()
        self._failure: DevrtError | None = None
        self._ready = threading.Event()
        self._journal = None if journal is None else Journal(journal)
        try:
            self._start(num_nodes)
        except BaseException:
            if self._journal is not None:
                self._journal.close(delete=False)  # for the next service
            raise
        self.address = address_of(self._host, self._port)

    def _start(self, size: int) -> None:
        """Begin to listen, in a thread."""
        self._calls = Calls(self._cluster, self._incarnation(size), self._bounds)
        if self._journal is not None:
            self._calls.carry_on(self._journal)
        self._direct = DirectServer(
            self._calls,
            self._security.token or "",
            self._certified,
            self._journal is not None,
            self._bounds.message_bytes,
            self._bounds.connections,
            self._bounds.transit_bytes,
            self._count,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="devrt-coordination", daemon=True)
        self._thread.start()
        if not self._ready.wait(_START_SECONDS):
            self._loop.call_soon_threadsafe(self._stopping.set)
            words = f"the coordination service did not begin within {_START_SECONDS:g} s."
            raise refused(StatusCode.DEADLINE_EXCEEDED, words)
        if self._failure is not None:
            raise self._failure

    def shutdown(self) -> None:
        """End the service; calls that wait get an error. Idempotent."""
        if self._thread.is_alive():
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:  # it has just ended
                return
            self._thread.join(_START_SECONDS)
            if self._journal is not None:
                self._journal.close(delete=True)  # the job is over

    def end_soon(self) -> None:
        """Take in no process any more: this one leaves, and then ends the service."""
        self._cluster.is_ending = True

    def lose(self, number: int) -> None:
        """Take a process of an earlier service as lost: it had the service, and died with it."""
        done = threading.Event()

        def now() -> None:
            self._cluster.lose(number, "died with the coordination service")
            done.set()

        self._loop.call_soon_threadsafe(now)
        done.wait(_START_SECONDS)

    def status(self) -> dict[str, Any]:
        """Return as JSON has it who is there, what is waited for, and which calls were refused."""
        return {**self._cluster.describe(), "refused": dict(self._refusals)}

    def __enter__(self) -> DistributedRuntimeService:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except DevrtError as error:
            self._failure = error
        except (OSError, RuntimeError) as error:
            words = (
                f"the coordination service could not begin: {error}. It needs a socket in the "
                "folder of temporary files, whose path may have some 80 bytes: look at TMPDIR."
            )
            self._failure = DistributedError(words, code=StatusCode.UNAVAILABLE)
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        bound = self._bind()
        try:
            # gRPC listens behind the port, at a socket that only this user reaches.
            with TemporaryDirectory(prefix="devrt-") as folder:
                await self._serve_at(bound, os.path.join(folder, "grpc"))
        finally:
            for one in bound:
                one.close()

    async def _serve_at(self, bound: Sequence[socket.socket], path: str) -> None:
        server = self._grpc.aio.server(
            options=[
                ("grpc.max_receive_message_length", self._bounds.message_bytes),
                ("grpc.max_send_message_length", -1),
                ("grpc.max_metadata_size", 16 << 10),
            ]
        )
        if self._certified:
            server.add_secure_port(f"unix:{path}", self._security.server_credentials(self._grpc))
        else:
            server.add_insecure_port(f"unix:{path}")
        offered = [(LIMIT_KEY, str(self._bounds.message_bytes))]
        offered += [] if self._journal is None else [(RESUMES_KEY, "1")]
        server.add_generic_rpc_handlers(tuple(self._handlers(tuple(offered))))
        await server.start()
        await self._direct.start(bound, path)
        self._ready.set()
        ticked = time.monotonic()
        while not self._stopping.is_set():
            try:
                await asyncio.wait_for(self._stopping.wait(), _TICK)
            except TimeoutError:
                now = time.monotonic()
                if now - ticked > self._cluster.limits.heartbeat / BEATS:
                    self._cluster.excuse(now - ticked)  # signs of life wait to be read
                self._cluster.tick()
                ticked = now
        self._calls.close()
        await asyncio.sleep(_TICK)  # the errors of calls that waited go out first
        self._direct.close()
        await _ended({asyncio.ensure_future(server.stop(0))})
        await _end_tasks()
        for _ in range(_ROUNDS_TO_CLOSE):
            await asyncio.sleep(0)

    def _incarnation(self, size: int) -> int:
        """Return a new number, or the journal's, with the processes that it has."""
        number = secrets.randbits(63)
        if self._journal is None:
            return number
        number, journal = self._journal.begin(number, size), self._journal
        for row in list(journal.processes.values()):
            self._cluster.restore(row["process"], row["state"], row["incarnation"], row["phase"])
        self._cluster.on_change = lambda node: journal.note_process(
            node.number, node.state, node.incarnation, node.phase
        )
        return number

    def _bind(self) -> list[socket.socket]:
        """Take the port, on every address of the host."""
        try:
            bound = bound_sockets(self._host, self._port)
        except OSError as error:
            where = address_of(self._host, self._port)
            msg = (
                f"the coordination service cannot listen at {where}: the port is in use, or the "
                "address is none of this machine. Choose another port, or 0 for one that is free."
            )
            raise DistributedError(msg, address=where) from error
        self._port = int(bound[0].getsockname()[1])
        return bound

    def _handlers(self, offered: tuple[tuple[str, str], ...]) -> list[Any]:
        grpc = self._grpc
        rows = {
            name: grpc.unary_unary_rpc_method_handler(
                self._guarded(getattr(self._calls, name), offered if name in _OFFERING else ()),
                message(f"{name}Request").FromString,
                message(f"{name}Response").SerializeToString,
            )
            for name in METHODS
        }
        status = grpc.unary_unary_rpc_method_handler(self._guarded(self._status))
        package, _, method = STATUS.lstrip("/").partition("/")
        return [
            grpc.method_handlers_generic_handler(SERVICE, rows),
            grpc.method_handlers_generic_handler(package, {method: status}),
        ]

    def _guarded(
        self,
        call: Callable[[Any], Coroutine[Any, Any, Any]],
        metadata: tuple[tuple[str, str], ...] = (),
    ) -> Any:
        async def guarded(request: Any, context: Any) -> Any:
            try:
                if not self._security.accepts(context):
                    words = "this service needs the job's token, or a certificate that it accepts."
                    raise refused(StatusCode.UNAUTHENTICATED, words)
                self._direct.admit_relayed(context.peer().removeprefix("unix-abstract:"))
                check_contract(contract_of(dict(context.invocation_metadata())))
                context.set_trailing_metadata(metadata)
                return await call(request)
            except DevrtError as error:
                self._count(error)
                words = str(error).removeprefix(f"{error.code.name}: ")  # the client puts it back
                details = ((ERROR_KEY, to_wire(error)),)
                await context.abort(self._grpc_code(error), words, details)

        return guarded

    def _count(self, error: DevrtError) -> None:
        name = error.code.name
        self._refusals[name] = self._refusals.get(name, 0) + 1

    def _grpc_code(self, error: DevrtError) -> Any:
        return getattr(self._grpc.StatusCode, error.code.name)

    async def _status(self, _: bytes) -> bytes:
        return json.dumps(self.status()).encode()


async def _end_tasks() -> None:
    """End what gRPC has left running: a task that is destroyed prints a traceback."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await _ended(tasks)


async def _ended(tasks: set[asyncio.Task[Any]]) -> None:
    """Wait until tasks have ended; not for ever: in the child of a fork gRPC may answer nothing."""
    done, _ = await asyncio.wait(tasks, timeout=_STOP_SECONDS) if tasks else (tasks, tasks)
    for task in done:
        if not task.cancelled():
            task.exception()  # nobody else looks at it
