"""Compiled programs on disk: compiled once, then loaded, whatever became of the files meanwhile."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import devrt
from devrt.compiling.cache import ExecutableCache
from devrt.errors import DevrtWarning, InvalidArgumentError
from devrt.runtime import Runtime
from devrt_cpu import _ext

pytest.importorskip("xla_plugins", reason="needs xla-cpu-pjrt")

PROGRAM = """
module @{name} {{
  func.func public @main(%a: tensor<{n}xf32>, %b: tensor<{n}xf32>) -> tensor<{n}xf32> {{
    %0 = stablehlo.{op} %a, %b : tensor<{n}xf32>
    return %0 : tensor<{n}xf32>
  }}
}}
"""


def program(name="added", n=8, op="add"):
    return PROGRAM.format(name=name, n=n, op=op)


@pytest.fixture
def cache(tmp_path):
    return ExecutableCache(tmp_path / "executables")


@pytest.fixture
def client(cache):
    """Return the client of a runtime whose compiled programs go to a folder of the test's own."""
    with Runtime() as runtime:
        runtime.config.update("compilation_cache_dir", str(cache.folder))
        yield runtime.get_backend("cpu")


@pytest.fixture
def compilations(monkeypatch):
    """Return a list that gets an entry whenever the compiler itself is requests."""
    requests, compile_ = [], _ext._compile

    def counting(*arguments):
        requests.append(arguments)
        return compile_(*arguments)

    monkeypatch.setattr(_ext, "_compile", counting)
    return requests


def outcome(executable):
    client = executable.client
    device = executable.local_devices()[0]
    values = [np.arange(n, dtype="f4") for (n,), _ in executable.parameters]
    buffers = [client.buffer_from_pyval(value, device) for value in values]
    (result,) = executable.execute(buffers)
    return np.asarray(result).tolist()


FACTS = (
    *("name", "parameters", "outputs", "donated_parameters", "custom_calls", "is_collective"),
    *("num_replicas", "num_partitions", "fingerprint"),
)


def test_the_second_time_it_is_loaded_and_the_same(client, compilations):
    first = client.compile_and_load(program())
    second = client.compile_and_load(program())
    assert len(compilations) == 1
    assert outcome(first) == outcome(second) == [2.0 * i for i in range(8)]
    for fact in FACTS:
        assert getattr(first, fact) == getattr(second, fact), fact
    assert first.cost_analysis() == second.cost_analysis()
    assert first.local_devices() == second.local_devices()


def test_another_program_option_device_or_flag_is_another_entry(
    client, compilations, cache, monkeypatch
):
    client.compile_and_load(program())
    client.compile_and_load(program(op="multiply"))
    client.compile_and_load(program(), client.local_devices()[1:2])
    client.compile_and_load(program(), env_option_overrides={"xla_cpu_enable_fast_math": True})
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    client.compile_and_load(program())
    assert len(compilations) == len(cache.entries()) == 5


def test_it_runs_where_it_was_requested(client, compilations):
    for device in client.local_devices()[:3] * 2:
        executable = client.compile_and_load(program(), [device])
        assert executable.local_devices() == [device]
        assert outcome(executable)[3] == 6.0
    assert len(compilations) == 3


SHARDED = """
module @sharded attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = stablehlo.add %a, %a : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
"""


def test_a_program_over_four_devices(client, compilations):
    shards = [
        client.buffer_from_pyval(np.full(2, i, "f4"), d)
        for i, d in enumerate(client.local_devices()[:4])
    ]
    for _ in range(2):
        executable = client.compile_and_load(SHARDED)
        (results,) = executable.execute_sharded([shards])
        assert [np.asarray(shard)[0] for shard in results] == [0.0, 2.0, 4.0, 6.0]
        assert executable.get_output_shardings()[0].partitions == (4,)
    assert len(compilations) == 1


def test_a_damaged_file_is_compiled_anew(client, compilations, cache):
    client.compile_and_load(program())
    (entry,) = cache.entries()
    with open(entry.path, "r+b") as file:
        file.truncate(entry.size // 2)
    with pytest.warns(DevrtWarning, match="is damaged"):
        assert outcome(client.compile_and_load(program()))[1] == 2.0
    client.compile_and_load(program())
    assert len(compilations) == 2


def test_what_the_compiler_does_not_take_is_compiled_anew(client, compilations, cache):
    """A whole entry with something else in it, as a colliding or older writer might leave."""
    client.compile_and_load(program())
    (entry,) = cache.entries()
    key = os.path.basename(entry.path).partition(".")[0]
    cache.put(key, b"no executable")
    assert outcome(client.compile_and_load(program()))[1] == 2.0
    assert len(compilations) == 2
    client.compile_and_load(program())
    assert len(compilations) == 2


def test_where_it_cannot_be_written_programs_run(tmp_path, compilations):
    (tmp_path / "file").write_text("")
    with Runtime() as runtime:
        runtime.config.update("compilation_cache_dir", str(tmp_path / "file" / "folder"))
        client = runtime.get_backend("cpu")
        with pytest.warns(DevrtWarning, match="not all kept"):
            client.compile_and_load(program())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert outcome(client.compile_and_load(program()))[1] == 2.0
    assert len(compilations) == 2


def test_it_can_be_turned_off(tmp_path, compilations):
    with Runtime() as runtime:
        runtime.config.update("compilation_cache_dir", str(tmp_path))
        runtime.config.update("enable_compilation_cache", False)
        client = runtime.get_backend("cpu")
        client.compile_and_load(program())
        client.compile_and_load(program())
    assert len(compilations) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_does_not_parse_leaves_nothing(client, cache):
    for _ in range(2):
        with pytest.raises(InvalidArgumentError):
            client.compile_and_load("module {")
    assert cache.entries() == []


TWICE = """
import numpy as np, sys, devrt
devrt.config.update("compilation_cache_dir", sys.argv[1])
client = devrt.devices("cpu")[0].client
for name in ("one", "two", "three"):
    executable = client.compile_and_load(sys.argv[2].replace("added", name))
    put = client.buffer_from_pyval(np.arange(8, dtype="f4"))
    assert np.asarray(executable.execute([put, put])[0])[7] == 14.0
"""


def test_processes_share_it(tmp_path):
    command = [sys.executable, "-W", "error", "-c", TWICE, str(tmp_path), program()]
    together = [subprocess.Popen(command) for _ in range(3)]
    assert [child.wait() for child in together] == [0, 0, 0]
    assert len(ExecutableCache(tmp_path).entries()) == 3
    after = TWICE + "\nassert not compiled"
    count = (
        "from devrt_cpu import _ext\ncompiled = []\ncompile_ = _ext._compile\n"
        "_ext._compile = lambda *a: compiled.append(a) or compile_(*a)\n"
    )
    command[4] = count + after
    assert subprocess.run(command, check=False).returncode == 0


def test_the_default_runtime_has_one(monkeypatch, compilations):
    client = devrt.devices("cpu")[0].client
    client.compile_and_load(program(name="of_the_default"))
    client.compile_and_load(program(name="of_the_default"))
    assert len(compilations) <= 1
