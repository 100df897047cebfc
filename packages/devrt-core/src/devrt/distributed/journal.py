"""What a service writes down so that one that is started after it can carry on."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

from devrt.distributed.faults import refused
from devrt.distributed.store import Entry
from devrt.errors import InvalidArgumentError, StatusCode

__all__ = ["Journal"]

_GROWTH = 64 << 20
_BEGIN = b'{"service": '


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
        self._is_behind = False  # the file lacks something, or ends within a line
        self._problem: str | None = None
        try:
            self._file = open(path, "ab", buffering=0)  # noqa: SIM115  it stays open
            os.chmod(path, 0o600)
            self._lock()
            self._read()
            self._rewrite()
        except OSError as error:
            msg = f"the journal {path!r} cannot be written: {error.strerror}. Give another path."
            raise InvalidArgumentError(msg, path=path) from error

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

    def check(self) -> None:
        """Raise if a change since the last check was not written down: it does not count.

        Raises
        ------
        DistributedError
            With the code ``RESOURCE_EXHAUSTED``.
        """
        problem, self._problem = self._problem, None
        if problem is not None:
            words = (
                f"the journal {str(self._path)!r} cannot be written: {problem}. What was to be "
                "changed may be lost with the service. Free space on its disk."
            )
            raise refused(StatusCode.RESOURCE_EXHAUSTED, words)

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
        data = self._path.read_bytes()
        if data and not data.startswith(_BEGIN[: len(data)]):
            self._file.close()
            msg = f"{str(self._path)!r} is another file, and no journal. Give another path."
            raise InvalidArgumentError(msg, path=str(self._path))
        for line in data.split(b"\n"):
            try:
                self._take(json.loads(line))
            except (ValueError, TypeError, KeyError):
                continue  # the last, where the service died while it wrote

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
        try:
            if self._is_behind:
                self._rewrite()
            else:
                self._append(json.dumps(row).encode() + b"\n")
        except OSError as error:
            self._is_behind = True
            self._problem = error.strerror

    def _append(self, line: bytes) -> None:
        _write_all(self._file, line)
        self._size += len(line)
        if self._size > self._limit:
            self._rewrite()

    def _rewrite(self) -> None:
        """Write what is so now to a new file, which takes the place of the old one at once."""
        rows = [self.service] if self.service else []
        rows += [*self.processes.values()]
        rows += [{"key": key, "value": value} for key, value in self.keys.items()]
        beside = self._path.with_name(f"{self._path.name}.new")
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        fresh = open(beside, "wb", buffering=0, opener=_private)  # noqa: SIM115
        try:
            _lock(fresh)
            _write_all(fresh, data)
            beside.replace(self._path)
        except OSError:
            fresh.close()
            beside.unlink(missing_ok=True)
            raise
        self._file.close()
        self._file = fresh
        self._is_behind = False
        self._size = len(data)
        self._limit = 4 * len(data) + _GROWTH


def _write_all(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:  # a disk that becomes full takes a part, and the rest is an error
        view = view[file.write(view) :]


def _lock(file: FileIO) -> None:
    import fcntl  # not on every system

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
