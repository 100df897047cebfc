"""The clients of other processes that show ``devrt top`` what memory they use."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any, NamedTuple

from devrt.cli.tables import plain
from devrt.runtime.memory_server import PREFIX, VERSION, peer_of

__all__ = ["Shown", "process_name", "shown_clients"]

_SOCKETS = Path("/proc/net/unix")
_PATIENCE = 3.0  # seconds for each process
_MOST = 1 << 24  # bytes of an answer


class Shown(NamedTuple):
    """The devices of clients, a row for each, and why processes show none, by their names."""

    rows: list[dict[str, Any]]
    problems: dict[str, str]


def shown_clients() -> Shown:
    """Return what each process of this user that shows its clients answers.

    Rows have the keys of those of `devrt.runtime.memory_server.MemoryServer`, and ``pid`` and
    ``name`` of the process. One of another network namespace, as a container's, is not found.
    """
    rows: list[dict[str, Any]] = []
    problems: dict[str, str] = {}
    for name in _names():
        try:
            pid, answer = _ask(name)
            found = [_row(pid, row) for row in answer]
        except PermissionError:
            continue  # another user's
        except (ConnectionRefusedError, ProcessLookupError):
            continue  # it has ended meanwhile, or is this one
        except TimeoutError:
            problems[f"process {_number(name)}"] = "it does not answer"
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            problems[f"process {_number(name)}"] = "its answer is not of this version of devrt"
        else:
            rows += found
    order = sorted(rows, key=lambda row: (row["pid"], row["client"], row["id"]))
    return Shown(order, problems)


def _names() -> list[str]:
    """Return the sockets' names; the kernel writes ``@`` for the zero that they begin with."""
    try:
        lines = _SOCKETS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:  # no Linux
        return []
    paths = (line.split()[-1] for line in lines if line)
    return sorted({path[1:] for path in paths if path.startswith(f"@{PREFIX}")})


def _ask(name: str) -> tuple[int, list[dict[str, Any]]]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(_PATIENCE)
        connection.connect(f"\0{name}")
        pid, uid = peer_of(connection)
        if uid != os.getuid():
            raise PermissionError
        if pid == os.getpid():
            raise ProcessLookupError
        data = b""
        while part := connection.recv(1 << 16):
            data += part
            if len(data) > _MOST:
                raise ValueError
    answer = json.loads(data)
    if answer["version"] != VERSION:
        raise ValueError
    return pid, answer["devices"]


def _row(pid: int, row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with what is expected of it and nothing else."""
    memory = {plain(kind): None if n is None else int(n) for kind, n in row["memory"].items()}
    texts = {key: plain(row[key]) for key in ("client", "platform", "kind")}
    address = row["pci_bus_id"]
    return {
        "pid": pid,
        "name": process_name(pid),
        **texts,
        "id": int(row["id"]),
        "pci_bus_id": None if address is None else plain(address),
        "memory": memory,
    }


def _number(name: str) -> str:
    return name.removeprefix(PREFIX).partition("-")[0]


def process_name(pid: int) -> str:
    """Return the name of a process; empty where its number is of another container."""
    try:
        name = Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return plain(name.strip())
