"""What a service writes down so that one that is started after it can carry on."""

from __future__ import annotations

import base64
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path

from devrt.distributed.faults import refused
from devrt.distributed.journal_rows import BEGIN, Row, lines, row
from devrt.errors import DevrtError, InvalidArgumentError, StatusCode

__all__ = ["Journal"]

_GROWTH = 64 << 20


class Journal:
    """A file with a line for each change of a job: its service, its processes, its keys.

    A line is with the operating system when the change is acknowledged: it outlives the process,
    but not a machine that loses power. What is no longer so is left out when the file has grown,
    by way of a file beside it whose name ends in ``.new``. The last line may lack its end, where
    the service died while it wrote; any other that is damaged is an error.

    Parameters
    ----------
    path
        The file; it is made where it is not there. One that is empty is taken as new.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(os.path.realpath(path))  # what a symlink leads to is what is replaced
        self.service: Row = {}
        self.processes: dict[int, Row] = {}
        self.keys: dict[str, str] = {}
        self._unwritten: dict[int, Row] = {}  # of processes, while the disk is full
        self._size = self._limit = 0
        self._is_torn = False  # the file may end within a line
        try:
            self._file = _locked(self._path)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            self._read(self._file.readall())
        except BaseException:
            self._file.close()
            raise

    def begin(self, incarnation: int, size: int) -> int:
        """Note a new service, or find the former; return the number that tells it from others."""
        if self.service and self.service["size"] != size:
            words = (
                f"the journal {str(self._path)!r} is of a job of {self.service['size']} processes, "
                f"and num_nodes is {size}. Delete it, or give another."
            )
            raise refused(StatusCode.FAILED_PRECONDITION, words)
        self.service = self.service or {"service": incarnation, "size": size}
        try:
            self._rewrite()
        except OSError as error:
            raise self._unwritable(error) from error
        return int(self.service["service"])

    def note_process(self, number: int, state: str, incarnation: int, phase: str) -> None:
        """Write down what a process has become; where that fails, `check` says so."""
        self._unwritten[number] = {
            "process": number,
            "state": state,
            "incarnation": incarnation,
            "phase": phase,
        }
        with suppress(DevrtError):  # what happens to processes happens nevertheless
            self.check()

    def note_keys(self, changes: Mapping[str, bytes | None]) -> None:
        """Write down what keys become, before they do.

        Raises
        ------
        DistributedError
            With the code ``RESOURCE_EXHAUSTED``: they must stay as they are.
        """
        self._write(
            {"key": key, "value": None if value is None else base64.b64encode(value).decode()}
            for key, value in changes.items()
        )

    def check(self) -> None:
        """Raise if what has become of a process is not written down, and cannot be.

        Raises
        ------
        DistributedError
            With the code ``RESOURCE_EXHAUSTED``.
        """
        if self._unwritten:
            self._write(())

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

    def _read(self, data: bytes) -> None:
        name = str(self._path)
        if not data.startswith(BEGIN[: len(data)]):
            msg = f"{name!r} is another file, and no journal. Give another path."
            raise InvalidArgumentError(msg, path=name)
        for number, line in enumerate(data.split(b"\n")[:-1], 1):  # what follows has no end
            try:
                self._take(row(line, self.service.get("size")))
            except ValueError as error:
                words = (
                    f"line {number} of the journal {name!r} is damaged: {error}. The file was left "
                    "as it is. Fix the line, or give another path, and begin the job anew."
                )
                raise refused(StatusCode.DATA_LOSS, words, path=name, line=number) from error

    def _take(self, one: Row) -> None:
        if "service" in one:
            self.service = one
        elif "process" in one:
            self.processes[one["process"]] = one
        elif one["value"] is None:
            self.keys.pop(one["key"], None)
        else:
            self.keys[one["key"]] = one["value"]

    def _write(self, rows: Iterable[Row]) -> None:
        """Append lines, all or none."""
        changed = [*self._unwritten.values(), *rows]
        data = lines(changed)
        try:
            self._cut()
            self._is_torn = True
            _write_all(self._file, data)
        except OSError as error:
            with suppress(OSError):
                self._cut()
            words = (
                f"the journal {str(self._path)!r} cannot be written: {error.strerror}. Nothing was "
                "changed. Free space on its disk."
            )
            raise refused(StatusCode.RESOURCE_EXHAUSTED, words) from error
        self._is_torn = False
        self._size += len(data)
        self._unwritten.clear()
        for one in changed:
            self._take(one)
        if self._size > self._limit:
            self._shorten()

    def _cut(self) -> None:
        """Take the part of a line away that a disk which became full took."""
        if self._is_torn:
            self._file.truncate(self._size)
            self._is_torn = False

    def _shorten(self) -> None:
        try:
            self._rewrite()
        except OSError:
            self._limit = 2 * self._size

    def _rewrite(self) -> None:
        """Write what is so now to a new file, which takes the place of the old one at once."""
        rows = [self.service, *self.processes.values()]
        rows += [{"key": key, "value": value} for key, value in self.keys.items()]
        beside, data = self._path.with_name(f"{self._path.name}.new"), lines(rows)
        beside.unlink(missing_ok=True)  # of a service that died here, or a link to who knows what
        fresh = _opened(beside, os.O_EXCL)
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
        self._size = len(data)
        self._limit = 4 * len(data) + _GROWTH

    def _unwritable(self, error: OSError) -> InvalidArgumentError:
        name = str(self._path)
        msg = f"the journal {name!r} cannot be written: {error.strerror}. Give another path."
        return InvalidArgumentError(msg, path=name)


def _locked(path: Path) -> FileIO:
    """Return the file of a path, which no other service has from now on."""
    while True:
        with suppress(FileNotFoundError):
            _check_regular(path, path.stat())
        file = _opened(path, os.O_NONBLOCK)
        try:
            _check_regular(path, os.fstat(file.fileno()))
            _lock_alone(file, path)
            if _is_at(file, path):
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # another service has put a new one in its place meanwhile


def _check_regular(path: Path, found: os.stat_result) -> None:
    """Refuse devices, pipes and folders: to write a journal is to replace what is there."""
    if not stat.S_ISREG(found.st_mode):
        msg = f"{str(path)!r} is no regular file, as a journal must be. Give another path."
        raise InvalidArgumentError(msg, path=str(path))


def _lock_alone(file: FileIO, path: Path) -> None:
    try:
        _lock(file)
    except OSError as error:
        words = f"another service writes the journal {str(path)!r}. Give another path."
        raise refused(StatusCode.ALREADY_EXISTS, words) from error


def _lock(file: FileIO) -> None:
    import fcntl  # not on every system

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_at(file: FileIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.lstat())
    except FileNotFoundError:
        return False


def _write_all(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:  # a disk that becomes full takes a part, and the rest is an error
        view = view[file.write(view) :]


def _opened(path: Path, how: int) -> FileIO:
    """Open a file to append to it, for this user alone where it is made."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how
    return FileIO(os.open(path, flags, 0o600), "r+")
