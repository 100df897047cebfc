"""Compiled executables on disk: what was compiled once is loaded the next time, by any process.

A file is named by a hash of everything that its content depends on (`cache_key`), so an entry is
never out of date, only unused; the files that were not used for longest go when the folder grows
beyond its bound. A file is written beside its place and moved there, and carries a digest of itself
and of its key: readers see a whole entry or none, whatever writes, is damaged or was moved.

What is loaded is machine code that will run. Therefore a file counts only where it, and the folder
it is in, belong to this user or to root and nobody else may write them.

A backend takes part by listing `devrt.records.CACHE_OPTIONS` among its client's options, and by
compiling through `devrt.compiling.load_or_compile`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from devrt._support.cache_files import TEMPORARY, cache_folder, write_atomically
from devrt._support.record import record
from devrt._support.warn import report_unraised, warn
from devrt.errors import ConfigError, DevrtWarning
from devrt.records import CACHE_OPTIONS

__all__ = [
    "CacheEntry",
    "ExecutableCache",
    "cache_key",
    "from_options",
    "host_cpu",
    "usual_folder",
]

_MAGIC = b"DEVRTX01"
_SUFFIX = ".devrtx"
_DIGEST = hashlib.sha256
_DIGEST_BYTES = 32
_HEX = frozenset("0123456789abcdef")
_LENGTH_BYTES = 8
_MAX_FACTS = 1 << 16
_KEPT = 0.8  # of the bound, after a clearing
_ROOT = 0
_ELSEWHERE = (
    "Set DEVRT_COMPILATION_CACHE_DIR to a folder of your own, or "
    "DEVRT_ENABLE_COMPILATION_CACHE=false."
)
_ABANDONED = 3600.0  # seconds after which a temporary file has no writer any more


@record(frozen=True, slots=True)
class CacheEntry:
    """One compiled program on disk.

    Attributes
    ----------
    path : str
        The file.
    size : int
        Its bytes.
    used : float
        When it was written or last taken, in seconds since the epoch.
    facts : Mapping
        What it was put with: ``name``, ``takes``, ``platform``, ``compile_seconds``. Empty where
        the file is damaged.
    """

    path: str
    size: int
    used: float
    facts: Mapping[str, Any]


class ExecutableCache:
    """A folder of compiled executables. Safe among threads and processes.

    Nothing here fails a compilation: what cannot be read is a miss, what cannot be written is left
    out, and one warning says so.

    Parameters
    ----------
    folder
        Where they are; made when the first is put.
    max_bytes
        How many bytes they may take together; -1 for no bound.
    min_seconds
        How long compiling must have taken for an executable to be kept.
    """

    def __init__(self, folder: Path, max_bytes: int = -1, min_seconds: float = 0.0) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.min_seconds = min_seconds
        self._lock = threading.Lock()
        self._complained = False

    def get(self, key: str) -> bytes | None:
        """Return the executable that was put under a key; None if there is none.

        A damaged file is removed, so that the next compilation writes it anew.
        """
        path = self._path(key)
        try:
            with open(path, "rb", opener=_at_once) as file:
                self._check_owner(file.fileno())
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._complain(f"{path} cannot be read: {error.strerror or error}")
            return None
        found = _unpacked(key, data)
        if found is None:
            self._complain(
                f"{path} is damaged, and was removed",
                "The program is compiled again. If this comes back, look after the disk.",
            )
            self.discard(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return found

    def put(self, key: str, executable: bytes, **facts: str | float) -> None:
        """Keep an executable, and remove those that were not used for longest beyond the bound.

        Parameters
        ----------
        key
            What `cache_key` gave for it.
        executable
            Its serialised form.
        **facts
            What to show of it: ``name``, ``takes``, ``platform``, ``compile_seconds``.
        """
        if float(facts.get("compile_seconds", self.min_seconds)) < self.min_seconds:
            return
        data = _packed(key, executable, facts)
        if 0 <= self.max_bytes < len(data):
            return
        try:
            write_atomically(self._path(key), data)
            self._shrink()
        except OSError as error:
            self._complain(f"{self.folder} cannot be written: {error.strerror or error}")

    def discard(self, key: str) -> None:
        """Remove an entry, as where the compiler refuses what was kept. No error if it is gone."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(key))

    def entries(self) -> list[CacheEntry]:
        """Return what is kept, the last used first; empty where there is no folder."""
        found = [
            CacheEntry(path, status.st_size, status.st_mtime, _facts(path))
            for path, status in self._files()
        ]
        return sorted(found, key=lambda entry: (-entry.used, entry.path))

    def clear(self) -> tuple[int, list[str]]:
        """Remove everything that is kept, and nothing that is not the cache's.

        Returns
        -------
        count : int
            How many entries were removed.
        problems : list of str
            What could not be removed, and why.
        """
        count, problems = 0, []
        for path, _ in self._files():
            try:
                os.unlink(path)
                count += 1
            except FileNotFoundError:
                continue  # another process was faster
            except OSError as error:
                problems.append(f"{path} cannot be removed: {error.strerror or error}")
        return count, problems

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}{_SUFFIX}"

    def _files(self) -> Iterator[tuple[str, os.stat_result]]:
        try:
            with os.scandir(self.folder) as found:
                entries = [entry for entry in found if _is_ours(entry.name)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield entry.path, status

    def _shrink(self) -> None:
        if self.max_bytes < 0:
            return
        files = sorted(self._files(), key=lambda file: file[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        if total <= self.max_bytes:
            return
        self._remove_abandoned()
        for path, status in files:
            if total <= self.max_bytes * _KEPT:
                break
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= status.st_size

    def _remove_abandoned(self) -> None:
        with os.scandir(self.folder) as found:
            being_written = [entry for entry in found if entry.name.startswith(TEMPORARY)]
        for entry in being_written:
            with contextlib.suppress(OSError):
                if time.time() - entry.stat().st_mtime > _ABANDONED:
                    os.unlink(entry.path)

    def _check_owner(self, descriptor: int) -> None:
        opened = os.fstat(descriptor)
        if not stat.S_ISREG(opened.st_mode):
            raise OSError(0, "it is no plain file")
        if not hasattr(os, "geteuid"):
            return
        for status in (opened, os.stat(self.folder)):
            is_shared = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if status.st_uid not in (os.geteuid(), _ROOT) or is_shared:
                raise PermissionError(
                    0, "it holds machine code, and others than you may write it or its folder"
                )

    def _complain(self, problem: str, advice: str = _ELSEWHERE) -> None:
        with self._lock:
            was, self._complained = self._complained, True
        if was:
            return
        try:
            warn(f"compiled programs are not all kept: {problem}. {advice}", DevrtWarning)
        except DevrtWarning as raised:  # where warnings are errors; the program runs all the same
            report_unraised(raised)


def _is_ours(name: str) -> bool:
    key = name.removesuffix(_SUFFIX)
    return len(key) == 2 * _DIGEST_BYTES and key != name and _HEX.issuperset(key)


def _at_once(path: str, flags: int) -> int:
    """Open a file; do not wait for a writer where somebody made a pipe of that name."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def cache_key(*parts: str | bytes) -> str:
    """Return the key of an executable: a hash of everything that it depends on, in order.

    Parameters
    ----------
    *parts
        The program, the options as the compiler gets them, what identifies the compiler and the
        machine it compiles for.
    """
    digest = _DIGEST(_MAGIC)
    for part in parts:
        data = part.encode(errors="surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(_LENGTH_BYTES, "little"))
        digest.update(data)
    return digest.hexdigest()


def from_options(options: Mapping[str, Any]) -> ExecutableCache | None:
    """Return the cache that a client's options describe; None where they turn it off.

    Parameters
    ----------
    options
        The values of `devrt.records.CACHE_OPTIONS`, as `devrt.records.ClientContext` has them.
        One that is missing has its default. A relative folder is below the working directory,
        ``~`` is the home directory.

    Raises
    ------
    ConfigError
        If the folder is the address of something else.
    """
    values = {spec.name: options.get(spec.name, spec.default) for spec in CACHE_OPTIONS}
    if not values["enable_compilation_cache"] or values["compilation_cache_max_size"] == 0:
        return None
    named = values["compilation_cache_dir"] or ""
    if "://" in named:
        msg = (
            f"compilation_cache_dir is {named!r}, and the cache is kept in folders only. Give the "
            "path of one, or set enable_compilation_cache to false."
        )
        raise ConfigError(msg, option="compilation_cache_dir", value=named)
    try:
        folder = Path(named).expanduser().absolute() if named else usual_folder()
    except RuntimeError:  # no home directory is known
        return None
    return ExecutableCache(
        folder,
        values["compilation_cache_max_size"],
        values["persistent_cache_min_compile_time_secs"],
    )


def usual_folder() -> Path:
    """Return where executables are kept unless an option says otherwise.

    Raises
    ------
    RuntimeError
        If the user has no home directory.
    """
    return cache_folder() / "executables"


@functools.cache
def host_cpu() -> str:
    """Return what machine code for this host depends on: the processor and its features."""
    parts = [platform.system(), platform.machine()]
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            first = file.read().partition("\n\n")[0]  # processors of one host are alike
    except OSError:
        return "\n".join([*parts, platform.processor()])
    wanted = ("model name", "cpu family", "model", "flags", "Features", "CPU part", "isa")
    parts += [line for line in first.splitlines() if line.partition(":")[0].strip() in wanted]
    return "\n".join(parts)


def _packed(key: str, executable: bytes, facts: Mapping[str, str | float]) -> bytes:
    encoded = json.dumps(facts).encode()
    head = len(encoded).to_bytes(_LENGTH_BYTES, "little") + encoded
    return _MAGIC + _digest(key, head, executable) + head + executable


def _unpacked(key: str, data: bytes) -> bytes | None:
    start = len(_MAGIC) + _DIGEST_BYTES
    length = int.from_bytes(data[start : start + _LENGTH_BYTES], "little")
    end = start + _LENGTH_BYTES + length
    if not data.startswith(_MAGIC) or length > _MAX_FACTS or len(data) < end:
        return None
    executable = data[end:]
    is_whole = data[len(_MAGIC) : start] == _digest(key, data[start:end], executable)
    return executable if is_whole else None


def _digest(key: str, head: bytes, executable: bytes) -> bytes:
    digest = _DIGEST(key.encode())
    digest.update(head)
    digest.update(executable)
    return digest.digest()


def _facts(path: str) -> Mapping[str, Any]:
    start = len(_MAGIC) + _DIGEST_BYTES
    try:
        with open(path, "rb", opener=_at_once) as file:
            data = file.read(start + _LENGTH_BYTES + _MAX_FACTS)
        length = int.from_bytes(data[start : start + _LENGTH_BYTES], "little")
        facts = json.loads(data[start + _LENGTH_BYTES :][:length])
    except (OSError, ValueError, RecursionError):
        return {}
    return facts if data.startswith(_MAGIC) and isinstance(facts, dict) else {}
