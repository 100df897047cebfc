"""Compiled programs on disk: compiled once, then loaded, whatever became of the files meanwhile."""

import contextlib
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import devrt
from devrt.compiling import Program, ProgramFacts
from devrt.compiling.cache import ExecutableCache
from devrt.errors import DevrtWarning, InvalidArgumentError
from devrt.runtime import Runtime
from support import python, xla_cpu_library

PROGRAM = """
module @{name} {{
  func.func public @main(%a: tensor<8xf32>{alias}, %b: tensor<8xf32>) -> tensor<8xf32> {{
    %0 = stablehlo.{op} %a, %b : tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}
"""
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
X = np.arange(8, dtype=np.float32)


def program(name="added", op="add", alias=""):
    return PROGRAM.format(name=name, op=op, alias=alias)


@pytest.fixture(params=["cpu", "loader"])
def platform(request, tmp_path, monkeypatch):
    """Return the platform of a client with eight devices, the loader's by the environment."""
    library = xla_cpu_library()
    pytest.importorskip("devrt_cpu" if request.param == "cpu" else "devrt_pjrt")
    if request.param == "cpu":
        return "cpu"
    options = tmp_path / "cached.json"
    options.write_text(
        json.dumps({"library_path": library, "create_options": {"cpu_device_count": 8}})
    )
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", f"cached:{options}")
    return "cached"


@pytest.fixture
def compilations(platform, monkeypatch):
    """Return a list that gets an entry whenever the compiler itself is requested."""
    if platform == "cpu":
        from devrt_cpu import _ext as module
    else:
        from devrt_pjrt.programs import compile as module
    requests, compile_ = [], module._compile
    monkeypatch.setattr(
        module, "_compile", lambda *a, **named: requests.append(a) or compile_(*a, **named)
    )
    return requests


@pytest.fixture
def cache(tmp_path):
    return ExecutableCache(tmp_path / "executables")


@pytest.fixture
def new_client(platform, cache):
    """Return a context: the client of a new runtime whose programs go to a folder of the test's."""

    @contextlib.contextmanager
    def make(**options):
        chosen = {
            "compilation_cache_dir": str(cache.folder),
            "persistent_cache_min_compile_time_secs": 0.0,
        }
        with Runtime() as runtime:
            for name, value in (chosen | options).items():
                runtime.config.update(name, value)
            yield runtime.get_backend(platform)

    return make


@pytest.fixture
def client(new_client):
    with new_client() as made:
        yield made


def outcome(executable):
    device = executable.local_devices()[0]
    put = executable.client.buffer_from_pyval(X, device)
    other = executable.client.buffer_from_pyval(X, device)
    return np.asarray(executable.execute([put, other])[0])[7]


FACTS = ("name", "num_replicas", "num_partitions", "fingerprint")
MORE_FACTS = ("parameters", "outputs", "donated_parameters", "custom_calls", "is_collective")


def test_the_second_time_it_is_loaded_and_the_same(client, compilations, platform, cpu_library):
    first, second = (client.compile_and_load(program()) for _ in range(2))
    assert len(compilations) == 1
    assert outcome(first) == outcome(second) == 14
    for fact in FACTS + (MORE_FACTS if platform == "cpu" else ()):
        assert getattr(first, fact) == getattr(second, fact), fact
    if "cost_of_a_program" not in {quirk.case for quirk in cpu_library.quirks}:
        assert first.cost_analysis() == second.cost_analysis()
    assert first.local_devices() == second.local_devices()


def test_the_next_runtime_finds_what_was_compiled(new_client, compilations):
    for _ in range(2):
        with new_client() as client:
            assert outcome(client.compile_and_load(program())) == 14
    assert len(compilations) == 1


def test_another_program_option_device_or_flag_is_another_entry(
    client, compilations, cache, platform, monkeypatch
):
    count = 4 if platform == "cpu" else 5  # its programs are bound to devices

    def compile_all():
        client.compile_and_load(program())
        client.compile_and_load(program(op="multiply"))
        client.compile_and_load(program(), client.local_devices()[1:2])
        client.compile_and_load(program(), env_option_overrides={"xla_cpu_enable_fast_math": True})
        return client.compile_and_load(program(), compile_portable_executable=count == 5)

    assert outcome(compile_all()) == outcome(compile_all()) == 14
    assert len(compilations) == len(cache.entries()) == count
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=false")
    client.compile_and_load(program())
    assert len(compilations) == len(cache.entries()) == count + 1


def test_it_runs_where_it_was_requested(client, compilations):
    for device in client.local_devices()[:3] * 2:
        executable = client.compile_and_load(program(), [device])
        assert executable.local_devices() == [device]
        assert outcome(executable) == 14
    assert len(compilations) == 3


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


@pytest.mark.parametrize("how", ["cut", "flipped"])
def test_a_damaged_file_is_compiled_anew(client, compilations, cache, how):
    client.compile_and_load(program())
    (entry,) = cache.entries()
    with open(entry.path, "r+b") as file:
        data = bytearray(file.read())
        data[-100] ^= 1
        file.seek(0)
        file.truncate()
        file.write(data if how == "flipped" else data[: len(data) // 2])
    with pytest.warns(DevrtWarning, match="is damaged"):
        assert outcome(client.compile_and_load(program())) == 14
    client.compile_and_load(program())
    assert len(compilations) == 2


def test_what_the_compiler_does_not_take_is_compiled_anew(client, compilations, cache):
    """A whole entry with something else in it, as a colliding or older writer might leave."""
    client.compile_and_load(program())
    (entry,) = cache.entries()
    key = os.path.basename(entry.path).partition(".")[0]
    cache.put(key, b"no executable" * 10)
    assert outcome(client.compile_and_load(program())) == 14
    assert len(compilations) == 2
    client.compile_and_load(program())
    assert len(compilations) == 2


def test_where_it_cannot_be_written_programs_run(tmp_path, compilations, new_client):
    (tmp_path / "file").write_text("")
    with new_client(compilation_cache_dir=str(tmp_path / "file" / "folder")) as client:
        with pytest.warns(DevrtWarning, match="not all kept"):
            client.compile_and_load(program())
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert outcome(client.compile_and_load(program())) == 14
    assert len(compilations) == 2


def test_it_can_be_turned_off(cache, compilations, new_client):
    with new_client(enable_compilation_cache=False) as client:
        client.compile_and_load(program())
        client.compile_and_load(program())
    assert len(compilations) == 2
    assert not cache.folder.exists()


def test_a_program_that_does_not_parse_leaves_nothing(client, cache):
    for _ in range(2):
        with pytest.raises(InvalidArgumentError):
            client.compile_and_load("module {")
    assert cache.entries() == []


TWICE = """
import numpy as np, sys, devrt
devrt.config.update("compilation_cache_dir", sys.argv[1])
devrt.config.update("persistent_cache_min_compile_time_secs", 0.0)
client = devrt.devices(sys.argv[3])[0].client
for name in ("one", "two", "three"):
    executable = client.compile_and_load(sys.argv[2].replace("added", name))
    put = client.buffer_from_pyval(np.arange(8, dtype="f4"))
    assert np.asarray(executable.execute([put, put])[0])[7] == 14.0
"""
COUNTED = """
from {} as module
compiled, compile_ = [], module._compile
module._compile = lambda *a, **named: compiled.append(a) or compile_(*a, **named)
{}
assert not compiled
"""


def test_processes_share_it(tmp_path, platform):
    arguments = [str(tmp_path / "shared"), program(), platform]
    command = [sys.executable, "-W", "error", "-c", TWICE, *arguments]
    together = [subprocess.Popen(command) for _ in range(3)]
    assert [child.wait() for child in together] == [0, 0, 0]
    assert len(ExecutableCache(tmp_path / "shared").entries()) == 3
    module = "devrt_cpu import _ext" if platform == "cpu" else "devrt_pjrt.programs import compile"
    python(COUNTED.format(module, TWICE), *arguments)


@pytest.mark.parametrize("platform", ["cpu"], indirect=True)
def test_the_default_runtime_has_one(platform, compilations):
    client = devrt.devices(platform)[0].client
    for _ in range(2):
        client.compile_and_load(program(name="of_the_default"))
    assert len(compilations) <= 1


# -- what the loader leaves to the compiler -------------------------------------------------------

loader = pytest.mark.parametrize("platform", ["loader"], indirect=True)


@loader
def test_custom_calls_are_left_to_the_compiler(client, cache):
    client.register_custom_call("cached_twice", lambda a: a * 2)
    call = "stablehlo.custom_call @cached_twice(%a) {api_version = 4 : i32} : (tensor<8xf32>) ->"
    assert outcome(client.compile_and_load(program().replace("stablehlo.add %a, %b :", call))) == 14
    assert cache.entries() == []


@loader
def test_bytecode_that_devrt_cannot_read_is_left_to_the_compiler(client, cache, monkeypatch):
    monkeypatch.setattr(Program, "facts", ProgramFacts(is_whole=False))
    assert outcome(client.compile_and_load(program())) == 14
    assert cache.entries() == []


@loader
def test_what_a_kept_program_takes_over_is_known_where_the_plugin_does_not_tell(
    client, compilations, monkeypatch
):
    from devrt_pjrt.programs.compiled import Executable

    monkeypatch.setattr(Executable, "facts", None)
    for _ in range(2):
        made = client.compile_and_load(program(alias=" {tf.aliasing_output = 0 : i32}"))
        a, b = client.buffer_from_pyval(X), client.buffer_from_pyval(X)
        made.execute([a, b])
        assert (len(compilations), a.is_deleted(), b.is_deleted()) == (1, True, False)


def test_a_client_of_ones_own_keeps_nothing_unasked(tmp_path):
    devrt_pjrt = pytest.importorskip("devrt_pjrt")
    library = devrt_pjrt.library_for("xla_cpu_tests", xla_cpu_library())
    with devrt_pjrt.make_client(library, "own") as client:
        client.compile_and_load(program())
    cache = ExecutableCache(tmp_path / "own")
    requests = []
    opens = lambda: requests.append(1) or cache  # noqa: E731
    with devrt_pjrt.make_client(library, "own", None, opens) as client:
        assert not requests
        client.compile_and_load(program())
        client.compile_and_load(program())
    assert (len(requests), len(cache.entries())) == (1, 1)
