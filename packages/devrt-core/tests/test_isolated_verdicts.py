"""Verdicts are remembered for as long as nothing changed, and never at the cost of an answer."""

import concurrent.futures
import dataclasses
import json
import os
from pathlib import Path

import pytest

from devrt import _cache_files
from devrt._cache_files import cache_folder, file_hash
from devrt.errors import DevrtWarning
from devrt.plugins import Broken, PluginRef
from devrt.plugins import _fingerprint as fingerprints
from devrt.plugins import _verdicts as verdicts
from devrt.plugins._isolated import Level, ProbeReport, ProbeRequest
from devrt.plugins._verdicts import (
    VerdictCache,
    isolated_state,
    probe_with_cache,
    state_of,
)
from devrt.records import Available, Unavailable

OK = ProbeReport("ok", "probe", facts={"serves": True, "detail": "simulated"})


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def request_for(plugins):
    def make(platform="one", level=Level.LOAD, timeout=60.0, **options):
        return ProbeRequest(plugins.ref(platform), level, timeout, options)

    return make


@pytest.fixture
def counted(monkeypatch):
    """Count the probes that are made, without making them."""
    made = []

    def probe_all(requests):
        requests = list(requests)
        made.extend(requests)
        return [OK for _ in requests]

    monkeypatch.setattr(verdicts, "probe_all", probe_all)
    return made


def remembered(report):
    return dataclasses.replace(report, cached=True)


def test_what_was_found_is_found_again(plugins, folder, request_for):
    plugins.add("one")
    request = request_for()
    report = ProbeReport("ok", "probe", "d", {"detail": "größe", "aliases": ["a"]}, "line\n")
    VerdictCache(folder).put(request, report)
    cache = VerdictCache(folder)
    assert cache.get(request) == remembered(report)
    assert cache.problem == ""


def test_a_real_probe_is_made_once(plugins, folder, request_for, tmp_path):
    told = tmp_path / "told"
    plugins.add("one", f"open({str(told)!r}, 'a').write('x'); import os; os.abort()")
    for cached in (False, True, True):
        (report,) = probe_with_cache([request_for()], VerdictCache(folder))
        assert (report.outcome, report.cached) == ("signal", cached)
    assert told.read_text() == "x"
    (report,) = probe_with_cache([request_for()], VerdictCache(folder), fresh=True)
    assert (report.cached, told.read_text()) == (False, "xx")


CHANGES = {
    "the module": lambda plugins, _: (plugins.path / "fake_one_plugin.py").write_text("x = 1"),
    "another distribution": lambda plugins, _: plugins.add("two"),
    "a variable": lambda _, patch: patch.setenv("DEVRT_SOMETHING", "1"),
    "visible devices": lambda _, patch: patch.setenv("SOME_VISIBLE_DEVICES", "1"),
    "the version of devrt": lambda _, patch: patch.setattr(verdicts, "_version", lambda: "9"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_the_surroundings_makes_it_unknown(
    plugins, folder, request_for, monkeypatch, what
):
    plugins.add("one")
    request = request_for()
    VerdictCache(folder).put(request, OK)
    assert VerdictCache(folder).get(request) is not None
    CHANGES[what](plugins, monkeypatch)
    assert VerdictCache(folder).get(request) is None


def test_level_options_manifest_and_plugin_have_verdicts_of_their_own(plugins, folder, request_for):
    plugins.add("one")
    plugins.add("two")
    cache = VerdictCache(folder)
    cache.put(request_for(), OK, "manifest")
    assert cache.get(request_for(), "manifest")
    assert cache.get(request_for(timeout=5.0), "manifest")
    assert cache.get(request_for(), "other") is None
    assert cache.get(request_for("two"), "manifest") is None
    assert cache.get(request_for(level=Level.CLIENT), "manifest") is None
    assert cache.get(request_for(a=1), "manifest") is None


def test_other_variables_change_nothing(plugins, folder, request_for, monkeypatch):
    plugins.add("one")
    VerdictCache(folder).put(request_for(), OK)
    for name in ("COLUMNS", "PYTEST_CURRENT_TEST", "DEVRT_CACHE_DIR", "PYTHONHASHSEED"):
        monkeypatch.setenv(name, "x")
    assert VerdictCache(folder).get(request_for())


def test_a_deadline_that_was_too_short_is_tried_again_with_a_longer_one(
    plugins, folder, request_for
):
    plugins.add("one")
    cache = VerdictCache(folder)
    cache.put(request_for(timeout=5.0), ProbeReport("timeout", "load", "5 s"))
    assert cache.get(request_for(timeout=5.0)).outcome == "timeout"
    assert cache.get(request_for(timeout=2.0)).outcome == "timeout"
    assert cache.get(request_for(timeout=6.0)) is None


@pytest.mark.parametrize(
    ("report", "lasts"),
    [
        (OK, True),
        (ProbeReport("unavailable", "probe", "no card"), True),
        (ProbeReport("signal", "client", "SIGSEGV"), True),
        (ProbeReport("exited", "load", "1"), True),
        (ProbeReport("raised", "load", "OSError"), True),
        (ProbeReport("raised", "probe", "OSError: busy"), False),
        (ProbeReport("raised", "client", "OSError: busy"), False),
        (ProbeReport("raised", "start", "no interpreter"), False),
    ],
)
def test_what_may_pass_is_not_remembered(plugins, folder, request_for, report, lasts):
    plugins.add("one")
    cache = VerdictCache(folder)
    cache.put(request_for(), report)
    assert (cache.get(request_for()) is not None) == lasts


# -- damage ---------------------------------------------------------------------------------------


def the_file(folder):
    (path,) = (folder / "verdicts").iterdir()
    return path


DAMAGES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe\0",
    b"[" * 100_000,
    b'{"schema": 99}',
    b'{"schema": 1}',
    b'{"schema": 1, "outcome": "fine", "phase": "", "detail": "", "facts": {}, "output": ""}',
    b'{"schema": 1, "outcome": "ok", "phase": 5, "detail": "", "facts": {}, "output": ""}',
    b'{"schema": 1, "outcome": "ok", "phase": "", "detail": "", "facts": [], "output": ""}',
    b" " * 1_000_000,
]


@pytest.mark.parametrize("data", DAMAGES)
def test_a_damaged_file_is_ignored_said_once_and_replaced(
    plugins, folder, request_for, counted, data
):
    plugins.add("one")
    VerdictCache(folder).put(request_for(), OK)
    the_file(folder).write_bytes(data)
    cache = VerdictCache(folder)
    (report,) = probe_with_cache([request_for()], cache)
    assert report == OK
    assert len(counted) == 1
    assert str(folder) in cache.problem
    again = VerdictCache(folder)
    assert again.get(request_for()) == remembered(OK)
    assert again.problem == ""


def in_the_way(folder):
    folder.write_text("a file where the folder should be")


def test_a_cache_that_cannot_be_used_costs_nothing(plugins, folder, request_for, counted):
    plugins.add("one")
    in_the_way(folder)
    cache = VerdictCache(folder)
    for _ in range(2):
        assert probe_with_cache([request_for()], cache) == [OK]
    assert len(counted) == 2
    assert "cache" in cache.problem


def test_a_cache_that_cannot_be_written_costs_nothing(
    plugins, folder, request_for, counted, monkeypatch
):
    plugins.add("one")

    def refuse(*_, **__):
        raise PermissionError(13, "read-only file system")

    monkeypatch.setattr(_cache_files.tempfile, "mkstemp", refuse)
    cache = VerdictCache(folder)
    assert probe_with_cache([request_for()], cache) == [OK]
    assert "read-only file system" in cache.problem


def test_no_home_directory(plugins, request_for, counted, monkeypatch):
    def homeless():
        raise RuntimeError("no home")

    plugins.add("one")
    for name in ("DEVRT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    cache = VerdictCache()
    assert probe_with_cache([request_for()], cache) == [OK]
    assert "no home" in cache.problem


def test_nothing_is_left_of_a_file_that_could_not_be_moved(
    plugins, folder, request_for, monkeypatch
):
    plugins.add("one")

    def refuse(*_):
        raise OSError("no")

    monkeypatch.setattr(verdicts.os, "replace", refuse)
    VerdictCache(folder).put(request_for(), OK)
    assert list((folder / "verdicts").iterdir()) == []


def test_many_writers_and_readers(plugins, folder, request_for):
    plugins.add("one")
    request = request_for()

    def work(number):
        cache = VerdictCache(folder)
        for _ in range(20):
            cache.put(request, dataclasses.replace(OK, detail=str(number)))
            found = cache.get(request)
            assert found is not None
            assert found.detail in "0123456789"
        return cache.problem

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(8))) == {""}
    assert len(list((folder / "verdicts").iterdir())) == 1


def test_it_stays_small(plugins, folder, request_for, monkeypatch):
    monkeypatch.setattr(verdicts, "_MAX_ENTRIES", 8)
    plugins.add("one")
    cache = VerdictCache(folder)
    for number in range(30):
        cache.put(request_for(n=number), OK)
        assert len(list((folder / "verdicts").iterdir())) <= 8
        assert cache.get(request_for(n=number)) is not None


# -- content hashes -------------------------------------------------------------------------------


def test_a_large_file_is_read_once_for_as_long_as_it_stays(folder, tmp_path, monkeypatch):
    read = []

    def counting(path):
        read.append(path)
        return file_hash(path)

    monkeypatch.setattr(_cache_files, "file_hash", counting)
    monkeypatch.setattr(_cache_files, "_LARGE", 4)
    library = tmp_path / "library.so"
    library.write_bytes(b"content")
    first = VerdictCache(folder).hash_of(library)
    assert VerdictCache(folder).hash_of(library) == first
    assert len(read) == 1
    library.write_bytes(b"Content, another")
    assert VerdictCache(folder).hash_of(library) != first
    assert len(read) == 2
    status = library.stat()
    os.utime(library, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    VerdictCache(folder).hash_of(library)
    assert len(read) == 3
    memo = next((folder / "hashes").iterdir())
    memo.write_text(json.dumps({"schema": 1, "file": "other", "hash": 5}))
    VerdictCache(folder).hash_of(library)
    assert len(read) == 4


def test_libraries_and_configuration_files_count(folder, tmp_path):
    library = tmp_path / "library.so"
    ref = PluginRef("lib", "(environment)", library=str(library))
    request = ProbeRequest(ref, Level.LOAD, 60.0)
    cache = VerdictCache(folder)
    cache.put(request, OK)  # a file that is not there is an answer, too
    assert cache.get(request)
    library.write_bytes(b"1")
    assert cache.get(request) is None


def test_the_machine_counts(tmp_path):
    def state():
        return fingerprints.machine_state(root=tmp_path, environ={})

    seen = {state()}
    for name, text in (
        ("proc/driver/acme/version", "1"),
        ("proc/driver/acme/version", "2"),
        ("dev/acme0", ""),
        ("sys/bus/pci/devices/0000:00:01.0/vendor", "0x1234"),
        ("etc/ld.so.cache", "x"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        assert state() not in seen, name
        assert state() == state()
        seen.add(state())


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    named = str(tmp_path / "named")
    assert cache_folder({"DEVRT_CACHE_DIR": named, "XDG_CACHE_HOME": "/x"}) == Path(named)
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path / "xdg")}) == tmp_path / "xdg" / "devrt"
    assert cache_folder({"XDG_CACHE_HOME": "relative"}) == tmp_path / ".cache" / "devrt"
    assert cache_folder({}) == tmp_path / ".cache" / "devrt"


# -- as a state -----------------------------------------------------------------------------------


def test_states_of_real_plugins(plugins, folder):
    plugins.add("one", probe="return Available('two of them')")
    plugins.add("away", probe="return Unavailable('no card', 'Buy one.')")
    plugins.add("crash", "import os; os.abort()")
    plugins.add("lacking", "import no_such_library")
    cache = VerdictCache(folder)
    states = {ref.platform: isolated_state(ref, 60.0, cache=cache) for ref in plugins.refs()}
    assert states["one"] == Available("two of them")
    assert states["away"] == Unavailable("no card", "Buy one.")
    assert states["crash"].phase == "probe"
    assert states["crash"].reason == "it was killed by SIGABRT while it was loaded"
    assert "fake-crash" in states["crash"].remedy
    assert states["lacking"].phase == "load"
    assert "'no_such_library', is not installed" in states["lacking"].reason
    again = isolated_state(plugins.ref("crash"), 60.0, cache=cache)
    assert again.reason.endswith("as an earlier probe found")


def test_a_cache_out_of_order_is_one_warning(plugins, folder, monkeypatch, counted):
    plugins.add("one")
    in_the_way(folder)
    monkeypatch.setenv("DEVRT_CACHE_DIR", str(folder))
    with pytest.warns(DevrtWarning, match="verdicts on plugins are not remembered") as caught:
        isolated_state(plugins.ref("one"), 60.0)
    assert len(caught) == 1
    cache = VerdictCache(folder)
    with pytest.warns(DevrtWarning):
        isolated_state(plugins.ref("one"), 60.0, cache=cache)
    isolated_state(plugins.ref("one"), 60.0, cache=cache)


@pytest.mark.parametrize("outcome", ["signal", "exited", "timeout", "garbled", "raised"])
def test_every_bad_end_is_broken_with_a_remedy(outcome):
    state = state_of(PluginRef("one", "fake-one"), ProbeReport(outcome, "probe", "detail"))
    assert isinstance(state, Broken)
    assert state.reason
    assert state.remedy.endswith(".")
