"""What this process's clients have in use of each kind of memory, for ``devrt top`` elsewhere.

Vendors' libraries count what a process holds of a device, and know neither kinds nor clients. So a
thread answers at a socket whose name `devrt top` finds: one of Linux's abstract ones, which is no
file and is gone with the process. Only the same user and root get an answer, and only processes
that were started with the option ``show_in_top`` have the thread.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import socket
import struct
import threading
import weakref
from collections.abc import Iterator
from typing import Any

from devrt.contract import Client, Device

__all__ = ["PREFIX", "VERSION", "MemoryServer", "memory_by_kind", "peer_of", "show"]

PREFIX = "devrt-top-"
"""Begins the name of each such socket; the process's number and a few letters follow."""
VERSION = 1  # of the answer
_PATIENCE = 1.0  # seconds: with a reader, and at exit with an answer under way
_PAUSE = 0.1  # seconds, after a connection that could not be accepted
_SIMULATED = "(simulated)"

_server: MemoryServer | None = None
_starting = threading.Lock()


def show(client: Client, name: str) -> None:
    """Have ``devrt top`` of other processes show a client from now on, under a backend's name.

    Raises
    ------
    OSError
        If this machine has no such sockets.
    """
    global _server
    with _starting:
        if _server is None:
            _server = MemoryServer()
            # A thread that the interpreter's end stops in native code takes the process along.
            atexit.register(_server.close)
    _server.add(client, name)


def _forget() -> None:
    """Leave the parent's socket to the parent, and begin anew: its thread did not come along."""
    global _server, _starting
    _starting = threading.Lock()
    if _server is not None:
        _server.abandon()
        _server = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


class MemoryServer:
    """A thread that answers each connection with what clients have in use, as JSON.

    The answer's keys are ``version`` and ``devices``, with a row for each local device of each
    client: ``client`` (the backend's name), ``platform``, ``id``, ``kind``, ``pci_bus_id`` (null
    where that is made up) and ``memory`` (bytes by kind).
    """

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[Client, str] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._closing = threading.Event()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(f"\0{PREFIX}{self._pid}-{secrets.token_hex(4)}")
        self._socket.listen()
        self._thread = threading.Thread(target=self._serve, name="devrt-top", daemon=True)
        self._thread.start()

    def add(self, client: Client, name: str) -> None:
        """Report a client too, while somebody else has it and it is open."""
        with self._lock, contextlib.suppress(TypeError):  # a class that weak references refuse
            self._names[client] = name

    def report(self) -> dict[str, Any]:
        """Return the answer."""
        with self._lock:
            clients = list(self._names.items())
        return {
            "version": VERSION,
            "devices": [row for client, name in clients for row in _rows(client, name)],
        }

    def close(self) -> None:
        """Answer no more; an answer under way ends first."""
        if self._pid != os.getpid():
            return  # a child's exit
        self._closing.set()
        with contextlib.suppress(OSError):  # the thread may have ended by itself
            self._socket.shutdown(socket.SHUT_RDWR)  # ends its accept
        self._thread.join(_PATIENCE)
        self._socket.close()

    def abandon(self) -> None:
        """Close a forked child's copy of the socket, which would keep its name alive."""
        self._socket.close()

    def _serve(self) -> None:
        with self._socket:
            while not self._closing.is_set():
                try:
                    connection, _ = self._socket.accept()
                except OSError:  # closed, or the process has no file descriptor left just now
                    self._closing.wait(_PAUSE)
                    continue
                # A reader that is gone, or an answer that is no JSON: the next one may be.
                with connection, contextlib.suppress(Exception):
                    self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        if peer_of(connection)[1] in (0, os.getuid()):
            connection.settimeout(_PATIENCE)
            connection.sendall(json.dumps(self.report()).encode())
            # Not by closing alone: a process that was forked meanwhile has it open too.
            connection.shutdown(socket.SHUT_RDWR)


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """Return the process and the user at a connection's other end."""
    form = "3i"  # struct ucred: process, user, group
    answer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form))
    pid, uid, _ = struct.unpack(form, answer)
    return pid, uid


def _rows(client: Client, name: str) -> Iterator[dict[str, Any]]:
    # Plugin code, which may fail in any way and whose client may be closed meanwhile.
    with contextlib.suppress(Exception):
        for device in () if client.is_closed else client.local_devices():
            address = device.attributes.get("pci_bus_id")
            yield {
                "client": name,
                "platform": device.platform,
                "id": int(device.id),
                "kind": device.device_kind,
                "pci_bus_id": None if device.device_kind.endswith(_SIMULATED) else address,
                "memory": memory_by_kind(device),
            }


def memory_by_kind(device: Device) -> dict[str, int | None]:
    """Return what a device's client has in use of each kind of memory; None is not counted."""
    stats = {memory.kind: memory.memory_stats() for memory in device.addressable_memories()}
    # A client that counts one of its memories only reports it as the device's.
    stats[device.default_memory().kind] = device.memory_stats()
    return {kind: _whole((each or {}).get("bytes_in_use")) for kind, each in stats.items()}


def _whole(number: Any) -> int | None:
    """Return a plugin's number, which may be NumPy's, as one that JSON has."""
    return None if number is None else int(number)
