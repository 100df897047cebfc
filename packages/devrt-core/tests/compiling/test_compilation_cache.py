"""The cache of compiled programs: whole entries or none, whatever writes or is damaged."""

import concurrent.futures
import json
import os
import subprocess
import sys
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devrt.compiling import cache as compilation_cache
from devrt.compiling.cache import ExecutableCache, cache_key, from_options
from devrt.errors import ConfigError, DevrtWarning
from devrt.records import CACHE_OPTIONS

KEY = cache_key("program", b"options")


@pytest.fixture
def cache(tmp_path):
    return ExecutableCache(tmp_path / "executables")


def only_file(cache):
    (entry,) = cache.entries()
    return entry.path


def damage(path, change):
    with open(path, "rb") as file:
        data = bytearray(file.read())
    change(data)
    with open(path, "wb") as file:
        file.write(data)


# -- what is put is what is had -------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_what_was_put_is_had(tmp_path_factory, executable):
    cache = ExecutableCache(tmp_path_factory.mktemp("cache"))
    assert cache.get(KEY) is None
    cache.put(KEY, executable, name="f", platform="cpu", compile_seconds=1.5)
    assert cache.get(KEY) == executable
    (entry,) = cache.entries()
    assert entry.facts == {"name": "f", "platform": "cpu", "compile_seconds": 1.5}
    assert entry.size == os.path.getsize(entry.path)


@given(st.lists(st.binary(max_size=3), max_size=4), st.lists(st.binary(max_size=3), max_size=4))
def test_keys_are_equal_where_all_parts_are(left, right):
    assert (cache_key(*left) == cache_key(*right)) == (left == right)


def test_the_parts_of_a_key_may_be_any_text():
    assert cache_key("a\udcff") != cache_key("a")


@given(st.data())
def test_whatever_byte_is_damaged_it_is_a_miss_and_the_file_goes(tmp_path_factory, data):
    cache = ExecutableCache(tmp_path_factory.mktemp("cache"))
    cache.put(KEY, b"machine code", name="f")
    path = only_file(cache)
    size = os.path.getsize(path)
    at = data.draw(st.integers(0, size - 1))
    flip = data.draw(st.integers(1, 255))
    how = data.draw(st.sampled_from(["flip", "cut", "append"]))

    def change(content):
        if how == "flip":
            content[at] ^= flip
        elif how == "cut":
            del content[at:]
        else:
            content += b"x"

    damage(path, change)
    with pytest.warns(DevrtWarning, match=r"was removed\. The program is compiled again\. "):
        assert cache.get(KEY) is None
    assert not os.path.exists(path)
    cache.put(KEY, b"machine code")
    assert cache.get(KEY) == b"machine code"


def test_an_entry_under_another_name_is_damaged(cache):
    cache.put(KEY, b"machine code")
    other = cache_key("another")
    os.rename(only_file(cache), cache._path(other))
    with pytest.warns(DevrtWarning, match="damaged"):
        assert cache.get(other) is None


def test_damage_is_reported_once(cache):
    with warnings.catch_warnings(record=True) as output:
        warnings.simplefilter("always")
        for _ in range(3):
            cache.put(KEY, b"machine code")
            damage(only_file(cache), lambda content: content.clear())
            assert cache.get(KEY) is None
    assert len(output) == 1


# -- where it cannot be used ----------------------------------------------------------------------


def test_a_folder_that_cannot_be_made_costs_a_warning(tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    cache = ExecutableCache(in_the_way / "executables")
    with pytest.warns(DevrtWarning, match=r"kept: .* Not a directory.*COMPILATION_CACHE_DIR"):
        cache.put(KEY, b"machine code")
    assert cache.get(KEY) is None
    assert cache.entries() == []
    assert cache.clear() == (0, [])


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows: files have no owner's mode")
@pytest.mark.parametrize("place", ["folder", "file"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_not_run(cache, place, mode):
    cache.put(KEY, b"machine code")
    path = only_file(cache) if place == "file" else cache.folder
    os.chmod(path, os.stat(path).st_mode | mode)
    with pytest.warns(DevrtWarning, match="others than you may write it"):
        assert cache.get(KEY) is None
    os.chmod(path, os.stat(path).st_mode & ~mode)
    assert cache.get(KEY) == b"machine code"


def test_what_another_user_wrote_is_not_run(cache, monkeypatch):
    cache.put(KEY, b"machine code")
    owner = os.stat(only_file(cache)).st_uid
    monkeypatch.setattr(compilation_cache, "_ROOT", -1)
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.warns(DevrtWarning, match="others than you"):
        assert cache.get(KEY) is None


def test_new_folders_and_files_are_for_the_user_alone(cache):
    before = os.umask(0)
    try:
        cache.put(KEY, b"machine code")
    finally:
        os.umask(before)
    assert os.stat(cache.folder).st_mode & 0o077 == 0
    assert os.stat(only_file(cache)).st_mode & 0o077 == 0


# -- how much is kept -----------------------------------------------------------------------------


def put_many(cache, count):
    keys = [cache_key(str(number)) for number in range(count)]
    for age, key in enumerate(keys):
        cache.put(key, bytes(1000))
        if cache._path(key).exists():
            os.utime(cache._path(key), (age, age))  # the clock's steps may be longer than a put
    return keys


def test_what_was_not_used_for_longest_goes_beyond_the_bound(cache):
    first, *rest = put_many(cache, 8)
    assert cache.get(first) is not None  # used now, so the last to go
    cache.max_bytes = sum(entry.size for entry in cache.entries())
    cache.put(KEY, bytes(1000))
    kept = {entry.path for entry in cache.entries()}
    assert {str(cache._path(first)), str(cache._path(KEY))} <= kept
    assert str(cache._path(rest[0])) not in kept
    assert sum(entry.size for entry in cache.entries()) <= 0.8 * cache.max_bytes


def test_what_is_larger_than_the_bound_is_not_put(cache):
    cache.max_bytes = 100
    cache.put(KEY, bytes(1000))
    assert cache.entries() == []


def test_without_a_bound_all_stay(cache):
    put_many(cache, 50)
    assert len(cache.entries()) == 50
    assert cache.clear() == (50, [])
    assert cache.entries() == []


def test_what_was_compiled_quickly_is_not_kept(cache):
    cache.min_seconds = 2.0
    cache.put(KEY, b"", compile_seconds=1.9)
    assert cache.get(KEY) is None
    cache.put(KEY, b"", compile_seconds=2.0)
    assert cache.get(KEY) == b""


def test_files_that_a_dead_writer_left_are_removed_in_time(cache):
    cache.put(KEY, bytes(1000))
    dead, young = cache.folder / ".devrt-dead", cache.folder / ".devrt-young"
    dead.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(dead, (0, 0))
    cache.max_bytes = 1500
    cache.put(cache_key("other"), bytes(1000))
    assert not dead.exists()
    assert young.exists()


def test_what_is_not_the_caches_own_stays(cache):
    """The folder may be one that somebody keeps other things in."""
    cache.put(KEY, bytes(1000))
    others = [".netrc", "setup.exe", "a.devrtx", f"{'g' * 64}.devrtx", "0" * 64]
    for name in others:
        (cache.folder / name).write_bytes(bytes(5000))
        os.utime(cache.folder / name, (0, 0))
    for folder in (".ssh", f"{'0' * 64}.devrtx"):
        (cache.folder / folder).mkdir()
        os.utime(cache.folder / folder, (0, 0))
    cache.max_bytes = 1500
    cache.put(cache_key("other"), bytes(1000))
    assert [entry.path for entry in cache.entries()] == [str(cache._path(cache_key("other")))]
    assert cache.clear() == (1, [])
    assert {path.name for path in cache.folder.iterdir()} == {
        *others,
        ".ssh",
        f"{'0' * 64}.devrtx",
    }


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows: no pipes in folders")
def test_a_pipe_in_an_entrys_place_is_a_miss_and_no_wait(cache):
    cache.folder.mkdir()
    os.mkfifo(cache._path(KEY), 0o600)
    with pytest.warns(DevrtWarning, match="no plain file"):
        assert cache.get(KEY) is None
    assert cache.entries() == []


# -- many at once ---------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from devrt.compiling.cache import ExecutableCache, cache_key
cache = ExecutableCache(Path(sys.argv[1]), max_bytes=30_000)
for step in range(60):
    key = cache_key(str(step % 7))
    content = bytes([step % 7]) * (1000 + 500 * (step % 7))
    cache.put(key, content, name=str(step % 7))
    found = cache.get(key)
    assert found is None or found == content, step
"""


def test_processes_that_write_the_same_and_clear_meanwhile(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", WRITER, str(tmp_path)])
        for _ in range(4)
    ]
    cache = ExecutableCache(tmp_path)
    while any(writer.poll() is None for writer in writers):
        cache.clear()
        for entry in cache.entries():
            assert entry.facts == {} or "name" in entry.facts
    assert [writer.returncode for writer in writers] == [0] * 4
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_threads_that_write_and_read_the_same(cache):
    def work(step):
        key = cache_key(str(step % 5))
        cache.put(key, str(step % 5).encode() * 500)
        return cache.get(key) == str(step % 5).encode() * 500

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(200)))


# -- options and the command ----------------------------------------------------------------------


def test_options_turn_it_off(tmp_path, monkeypatch):
    monkeypatch.setenv("DEVRT_CACHE_DIR", str(tmp_path))
    usual = from_options({})
    assert usual.folder == tmp_path / "executables"
    assert (usual.max_bytes, usual.min_seconds) == (2 << 30, 0.0)
    assert from_options({"enable_compilation_cache": False}) is None
    assert from_options({"compilation_cache_max_size": 0}) is None
    assert from_options({"compilation_cache_dir": "/x"}).folder.as_posix() == "/x"


def test_a_folder_is_named_as_shells_name_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert from_options({"compilation_cache_dir": "~/kept"}).folder == tmp_path / "kept"
    monkeypatch.chdir(tmp_path)
    relative = from_options({"compilation_cache_dir": "kept"})
    monkeypatch.chdir("/")
    assert relative.folder == tmp_path / "kept"
    with pytest.raises(ConfigError, match="'gs://bucket/kept', and the cache is kept in folders"):
        from_options({"compilation_cache_dir": "gs://bucket/kept"})


def test_without_a_home_there_is_no_cache(monkeypatch):
    for name in ("DEVRT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless():
        raise RuntimeError("no home")

    monkeypatch.setattr("pathlib.Path.home", homeless)
    assert from_options({}) is None


def test_the_options_are_the_cores_and_have_jaxs_spellings(monkeypatch):
    from devrt._config.layers import Config

    config = Config({"JAX_COMPILATION_CACHE_DIR": "/somewhere"})
    assert {spec.name for spec in CACHE_OPTIONS} <= set(config.names())
    assert config.read("jax_compilation_cache_dir") == "/somewhere"


@pytest.fixture
def command(run_python, tmp_path):
    def run(*arguments):
        return run_python(
            *("-m", "devrt", "cache", *arguments), DEVRT_COMPILATION_CACHE_DIR=str(tmp_path)
        )

    return run


def test_the_command_shows_and_clears(command, tmp_path):
    cache = ExecutableCache(tmp_path)
    cache.put(KEY, bytes(2048), name="mlp", platform="cpu", compile_seconds=0.25)
    cache._path(cache_key("x")).write_bytes(b"damaged")
    shown = json.loads(command("--json").stdout)
    assert (shown["folder"], shown["enabled"]) == (str(tmp_path), True)
    names = {row["name"]: row for row in shown["entries"]}
    assert names["mlp"]["compile_seconds"] == 0.25
    assert None in names
    assert shown["bytes"] == sum(row["bytes"] for row in shown["entries"])
    table = command().stdout
    assert "mlp" in table
    assert "(damaged)" in table
    assert "2 programs" in table
    assert "removed 2 programs" in command("--clear").stdout
    assert json.loads(command("--json").stdout)["entries"] == []


def test_the_command_says_that_it_is_turned_off(run_python, tmp_path):
    done = run_python(
        *("-m", "devrt", "cache"),
        DEVRT_COMPILATION_CACHE_DIR=str(tmp_path),
        DEVRT_ENABLE_COMPILATION_CACHE="false",
    )
    assert done.returncode == 0, done.stderr
    assert "turned off" in done.stdout


def test_the_command_says_what_it_cannot_use(run_python, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for more in ((), ("--clear",)):
        done = run_python(*("-m", "devrt", "cache", *more), DEVRT_COMPILATION_CACHE_DIR=str(file))
        assert done.returncode == 1
        assert f"{file} is no folder" in done.stderr


def test_where_warnings_are_errors_nothing_is_raised(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    cache = ExecutableCache(tmp_path / "file" / "below")
    output = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: output.append(args.exc_value))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.get("0" * 64) is None
        cache.put("0" * 64, b"code")
    (error,) = output
    assert isinstance(error, DevrtWarning)
    assert "Not a directory" in str(error)
