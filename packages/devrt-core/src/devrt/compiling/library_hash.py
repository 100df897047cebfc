"""What a compiler's library is known by: the hash of its file, and of the compiler behind it."""

from __future__ import annotations

import functools
import hashlib
import os
from pathlib import Path

from devrt._support.cache_files import cache_folder, kept_file_hash

__all__ = ["count_in", "hash_of_library"]

_counted: dict[str, str] = {}


def count_in(library: str, compiler: str) -> None:
    """Have a library's hash count another library: the compiler that it has do its work."""
    _counted[library] = compiler


def hash_of_library(path: str) -> str:
    """Return the hash of a compiler's library, read once for as long as the file stays the same.

    Raises
    ------
    OSError
        If it cannot be read.
    """
    status = os.stat(path)
    found = _hash_of(path, status.st_size, status.st_mtime_ns, status.st_ino)
    if path not in _counted:
        return found
    return hashlib.sha256((found + hash_of_library(_counted[path])).encode()).hexdigest()


@functools.lru_cache(maxsize=64)
def _hash_of(path: str, *_state: int) -> str:
    try:
        folder: Path | None = cache_folder() / "hashes"
    except RuntimeError:
        folder = None
    return kept_file_hash(Path(path), folder)
