"""The clients of other processes that show ``devrt top`` what memory they use."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import time
from pathlib import Path
from typing import Any, NamedTuple

from devrt.cli.tables import plain
from devrt.runtime.memory_server import PREFIX, VERSION, peer_of

__all__ = ["Shown", "process_name", "shown_clients"]

_SOCKETS = Path("/proc/net/unix")
_LISTENS = "00010000 0001 01"  # flag, type and state of a socket there that takes connections
_PATIENCE = 3.0  # seconds for all processes together
_MOST = 1 << 24  # bytes of an answer
_SILENT = "it does not answer"


class Shown(NamedTuple):
    """The devices of clients, a row for each, and why processes show none, by their names."""

    rows: list[dict[str, Any]]
    problems: dict[str, str]


def shown_clients() -> Shown:
    """Return what each process of this user that shows its clients answers; for root, all users'.

    Rows have the keys of those of `devrt.runtime.memory_server.MemoryServer`, and ``pid`` and
    ``name`` of the process. One of another network namespace, as a container's, is not found.
    """
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    with contextlib.ExitStack() as opened:
        # All begin to answer before one is waited for: however many are stopped, it is one wait.
        processes = [each for listener in _listeners() if (each := _connected(listener, opened))]
        deadline = time.monotonic() + _PATIENCE
        for each in processes:
            found, problem = _answer(each, deadline)
            rows += found
            problems |= {f"process {each.pid}": problem} if problem else {}
    order = sorted(rows, key=lambda row: (row["pid"], row["client"], row["id"]))
    return Shown(order, problems)


class _Listener(NamedTuple):
    """A socket, and whose it is by its name, which anybody may give to any."""

    inode: str
    name: str
    pid: int


class _Process(NamedTuple):
    """A process that is to answer; without a connection where its queue of them is full."""

    pid: int
    connection: socket.socket | None


def _listeners() -> list[_Listener]:
    try:
        table = _SOCKETS.read_text(encoding="ascii", errors="replace")
    except OSError:  # no Linux
        return []
    # The kernel writes @ for the zero that an abstract name begins with.
    name = rf"{re.escape(PREFIX)}([0-9]{{1,10}})-[0-9a-f]+"
    found = re.findall(rf" {_LISTENS} +([0-9]+) @({name})$", table, re.MULTILINE)
    listeners = (_Listener(inode, name, int(pid)) for inode, name, pid in found)
    return sorted(listeners, key=lambda listener: listener.pid)


def _connected(listener: _Listener, opened: contextlib.ExitStack) -> _Process | None:
    """Connect to a process; None where it has ended, is this one, or is not this user's to see."""
    try:
        connection = opened.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        connection.setblocking(False)
        connection.connect(f"\0{listener.name}")
        pid, uid = peer_of(connection)
    except BlockingIOError:
        return _Process(listener.pid, None) if _is_visible(listener) else None
    except OSError:
        return None
    is_shown = os.getuid() in (0, uid) and pid != os.getpid()
    return _Process(pid, connection) if is_shown else None


def _is_visible(listener: _Listener) -> bool:
    """Return whether the process has the socket, and this user may know that."""
    try:
        files = [os.readlink(each) for each in Path(f"/proc/{listener.pid}/fd").iterdir()]
    except OSError:
        return False
    return f"socket:[{listener.inode}]" in files


def _answer(process: _Process, deadline: float) -> tuple[list[dict[str, Any]], str]:
    """Return the rows of a process, or none and why, if it is still there."""
    if process.connection is None:
        return [], _SILENT
    try:
        data = _received(process.connection, deadline)
        return _rows(process.pid, data) if data else [], ""
    except (TimeoutError, BlockingIOError):
        return [], _SILENT
    except ConnectionError:
        return [], ""
    except Exception:  # noqa: BLE001  whatever another process sends
        return [], "its answer is not of this version of devrt"


def _received(connection: socket.socket, deadline: float) -> bytes:
    """Return what a process sends until it closes; after the deadline what has come already."""
    data = bytearray()
    while len(data) <= _MOST:
        connection.settimeout(max(0.0, deadline - time.monotonic()))
        part = connection.recv(1 << 16)
        if not part:
            return bytes(data)
        data += part
    raise ValueError


def _rows(pid: int, data: bytes) -> list[dict[str, Any]]:
    answer = json.loads(data)
    if answer["version"] != VERSION:
        raise ValueError
    return [_row(pid, row) for row in answer["devices"]]


def _row(pid: int, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with what is expected of it and nothing else."""
    memory = {plain(kind): None if n is None else _whole(n) for kind, n in row["memory"].items()}
    texts = {key: plain(row[key]) for key in ("client", "platform", "kind")}
    address = row["pci_bus_id"]
    return {
        "pid": pid,
        "name": process_name(pid),
        **texts,
        "id": _whole(row["id"]),
        "pci_bus_id": None if address is None else plain(address),
        "memory": memory,
    }


def _whole(number: Any) -> int:
    if abs(whole := int(number)) >= 1 << 63:  # which no table could show
        raise ValueError
    return whole


def process_name(pid: int) -> str:
    """Return the name of a process; empty where its number is of another container."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return plain(name.strip())
