"""Where the disk caches lie, and content hashes: each large file is read once."""

import json
import os
from pathlib import Path

import pytest

from devrt._support import cache_files
from devrt._support.cache_files import cache_folder, file_hash, kept_file_hash, write_atomically


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    named = str(tmp_path / "named")
    assert cache_folder({"DEVRT_CACHE_DIR": named, "XDG_CACHE_HOME": "/x"}) == Path(named)
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path / "xdg")}) == tmp_path / "xdg" / "devrt"
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "devrt"
    assert cache_folder({}) == tmp_path / ".cache" / "devrt"


def test_nothing_is_left_of_a_file_that_could_not_be_moved(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError("no")

    monkeypatch.setattr(cache_files.os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        write_atomically(tmp_path / "folder" / "file", b"data")
    assert list((tmp_path / "folder").iterdir()) == []


def test_a_large_file_is_read_once_for_as_long_as_it_stays(tmp_path, monkeypatch):
    read = []

    def counting(path):
        read.append(path)
        return file_hash(path)

    monkeypatch.setattr(cache_files, "file_hash", counting)
    monkeypatch.setattr(cache_files, "_LARGE", 4)
    folder = tmp_path / "hashes"
    library = tmp_path / "library.so"
    library.write_bytes(b"content")
    first = kept_file_hash(library, folder)
    assert kept_file_hash(library, folder) == first
    assert len(read) == 1
    library.write_bytes(b"Content, another")
    assert kept_file_hash(library, folder) != first
    assert len(read) == 2
    status = library.stat()
    os.utime(library, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    kept_file_hash(library, folder)
    assert len(read) == 3
    (memo,) = folder.iterdir()
    memo.write_text(json.dumps({"schema": 1, "file": "other", "hash": 5}))
    kept_file_hash(library, folder)
    assert len(read) == 4
