"""What a service writes down so that one that is started after it can carry on."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from devrt.distributed.faults import refused
from devrt.distributed.store import Entry
from devrt.errors import InvalidArgumentError, StatusCode

__all__ = ["Journal"]

_GROWTH = 64 << 20


class Journal:
    """A file with a line for each change of a job: its service, its processes, its keys.

    A line is with the operating system when the change is acknowledged: it outlives the process,
    but not a machine that loses power. What is no longer so is left out when the file has grown.

    Parameters
    ----------
    path
        The file; it is made where it is not there.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self.service: dict[str, Any] = {}
        self.processes: dict[int, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}
        try:
            self._file = open(path, "ab")  # noqa: SIM115  it stays open
            os.chmod(path, 0o600)
        except OSError as error:
            msg = f"the journal {path!r} cannot be written: {error.strerror}. Give another path."
            raise InvalidArgumentError(msg, path=path) from error
        self._lock()
        self._read()
        self._rewrite()

    def begin(self, incarnation: int, size: int) -> int:
        """Note a new service, or find the former; return the number that tells it from others."""
        if self.service and self.service["size"] != size:
            words = (
                f"the journal {str(self._path)!r} is of a job of {self.service['size']} processes, "
                f"and num_nodes is {size}. Delete it, or give another."
            )
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        if not self.service:
            self._write({"service": incarnation, "size": size})
        return int(self.service["service"])

    def note_process(self, number: int, state: str, incarnation: int, phase: str) -> None:
        """Write down what a process has become."""
        self._write({"process": number, "state": state, "incarnation": incarnation, "phase": phase})

    def note_key(self, entry: Entry) -> None:
        """Write down what a key has become."""
        value = None if entry.value is None else base64.b64encode(entry.value).decode()
        self._write({"key": entry.key, "value": value})

    def entries(self) -> Iterator[tuple[str, bytes]]:
        """Give the keys that are there, and their values."""
        for key, value in list(self.keys.items()):
            yield key, base64.b64decode(value)

    def close(self, delete: bool) -> None:
        """End it; where the job is over, delete the file."""
        if not self._file.closed:
            if delete:
                self._path.unlink(missing_ok=True)
            self._file.close()

    def _lock(self) -> None:
        try:
            _lock(self._file)
        except OSError as error:
            self._file.close()
            words = f"another service writes the journal {str(self._path)!r}. Give another path."
            raise refused(StatusCode.ALREADY_EXISTS, words) from error

    def _read(self) -> None:
        for line in self._path.read_bytes().split(b"\n"):
            try:
                self._take(json.loads(line))
            except ValueError:  # the last, where the service died while it wrote
                continue

    def _take(self, row: dict[str, Any]) -> None:
        if "service" in row:
            self.service = row
        elif "process" in row:
            self.processes[row["process"]] = row
        elif row["value"] is None:
            self.keys.pop(row["key"], None)
        else:
            self.keys[row["key"]] = row["value"]

    def _write(self, row: dict[str, Any]) -> None:
        self._take(row)
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        if self._file.tell() > self._limit:
            self._rewrite()

    def _rewrite(self) -> None:
        """Write what is so now to a new file, which takes the place of the old one at once."""
        rows = [self.service] if self.service else []
        rows += [*self.processes.values()]
        rows += [{"key": key, "value": value} for key, value in self.keys.items()]
        beside = self._path.with_name(f"{self._path.name}.new")
        fresh = open(beside, "wb", opener=_private)  # noqa: SIM115
        _lock(fresh)
        for row in rows:
            fresh.write(json.dumps(row).encode() + b"\n")
        fresh.flush()
        beside.replace(self._path)
        self._file.close()
        self._file = fresh
        self._limit = 4 * fresh.tell() + _GROWTH


def _lock(file: BinaryIO) -> None:
    import fcntl  # not on every system

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
