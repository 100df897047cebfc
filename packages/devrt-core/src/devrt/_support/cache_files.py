"""Where devrt's caches lie on disk, and how their files are written and hashed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["TEMPORARY", "cache_folder", "file_hash", "kept_file_hash", "write_atomically"]

TEMPORARY = ".devrt-"
"""What the names of files begin with that are being written."""

_LARGE = 1 << 20
_MAX_MEMO = 1 << 16


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder of all caches: ``DEVRT_CACHE_DIR``, else below the user's cache directory.

    Raises `RuntimeError` if the user has no home directory.
    """
    variables = os.environ if environ is None else environ
    named = variables.get("DEVRT_CACHE_DIR")
    if named:
        return Path(named)
    base = variables.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "devrt"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that readers see all of it or nothing, whatever other processes write.

    Its folder is made, for this user alone, where it is not there. Where that raises `OSError`
    nothing is left behind.
    """
    import tempfile  # slow to import, and a start may read a cache

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def file_hash(path: Path) -> str:
    """Return the hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def kept_file_hash(path: Path, folder: Path | None) -> str:
    """Return the hash of a file's content; a large one is read once while it stays what it is.

    That is remembered in ``folder``, if there is one. What cannot be read or written there is made
    anew each time.
    """
    status = path.stat()
    if status.st_size < _LARGE or folder is None:
        return file_hash(path)
    name = os.path.abspath(path)
    known_as: list[Any] = [name, status.st_size, status.st_mtime_ns, status.st_ino]
    memo = folder / f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:40]}.json"
    found = _remembered(memo, known_as)
    if found is None:
        found = file_hash(path)
        with contextlib.suppress(OSError):
            write_atomically(memo, json.dumps({"file": known_as, "hash": found}).encode())
    return found


def _remembered(memo: Path, known_as: list[Any]) -> str | None:
    try:
        with memo.open("rb") as file:
            data = json.loads(file.read(_MAX_MEMO))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("file") != known_as:
        return None
    found = data.get("hash")
    return found if isinstance(found, str) else None
