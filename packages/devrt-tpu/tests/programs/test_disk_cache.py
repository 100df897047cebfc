"""Programs that a plugin has compiled are found on disk by the next client, or compiled anew."""

import json
import os
import subprocess
import sys
import textwrap

import pytest

import devrt_pjrt

HEAD = """
import json, os, pathlib, sys
import numpy as np
from devrt import runtime
from devrt_pjrt.programs import compile
from devrt.compiling.cache import ExecutableCache
compiles = []
real = compile._compile
def counted(*arguments, **named):
    compiles.append(arguments[1])
    return real(*arguments, **named)
compile._compile = counted
ADD = os.environ["PROGRAM"]
client = runtime.get_backend("cached")
X = np.arange(8, dtype=np.float32)
def run(executable):
    a = client.buffer_from_pyval(X, executable.local_devices()[0])
    return np.asarray(executable.execute([a, a])[0]).tolist()
folder = ExecutableCache(pathlib.Path(os.environ["FOLDER"]))
def entries(): return len(folder.entries())
"""


@pytest.fixture
def run(tmp_path, xla_cpu_library, add_text):
    """Return a function that runs code in a child with a cache of its own, and returns its list."""
    options = tmp_path / "cached.json"
    options.write_text(
        json.dumps({"library_path": xla_cpu_library, "create_options": {"cpu_device_count": 2}})
    )

    def call(code, **env):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", HEAD + textwrap.dedent(code)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={
                **os.environ,
                "PJRT_NAMES_AND_LIBRARY_PATHS": f"cached:{options}",
                "DEVRT_COMPILATION_CACHE_DIR": str(tmp_path / "kept"),
                "DEVRT_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
                "FOLDER": str(tmp_path / "kept"),
                "PROGRAM": add_text,
                **env,
            },
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout)

    return call


ONCE = (
    "made = client.compile_and_load(ADD); "
    "print(json.dumps([len(compiles), run(made)[7], entries()]))"
)


def test_the_next_process_finds_what_was_compiled(run):
    assert run(ONCE) == [1, 14, 1]
    assert run(ONCE) == [0, 14, 1]


def test_what_a_program_depends_on_is_not_mixed_up(run):
    assert run(ONCE) == [1, 14, 1]
    other = """
        client.compile_and_load(ADD.replace("add %a", "multiply %a"))
        client.compile_and_load(ADD, env_option_overrides={"xla_cpu_enable_fast_math": True})
        client.compile_and_load(ADD, client.devices()[1:])
        portable = client.compile_and_load(ADD, compile_portable_executable=True)
        print(json.dumps([len(compiles), run(portable)[7], entries()]))
    """
    assert run(other) == [4, 14, 5]
    assert run(other) == [0, 14, 5]
    assert run(ONCE, XLA_FLAGS="--xla_cpu_enable_fast_math=true") == [1, 14, 6]


def test_programs_on_several_devices_are_kept(run):
    wide = """
        made = client.compile_and_load(ADD, client.devices())
        spread = [client.buffer_from_pyval(X, d) for d in client.devices()]
        out = [np.asarray(s)[7].item() for s in made.execute_sharded([spread, spread])[0]]
        print(json.dumps([len(compiles), out, entries()]))
    """
    assert run(wide) == [1, [14, 14], 1]
    assert run(wide) == [0, [14, 14], 1]


def test_a_damaged_entry_is_compiled_anew(run, tmp_path):
    assert run(ONCE) == [1, 14, 1]
    (entry,) = (tmp_path / "kept").iterdir()
    data = bytearray(entry.read_bytes())
    data[-100] ^= 1
    entry.write_bytes(data)
    quiet = "import warnings; warnings.simplefilter('ignore')\n" + ONCE
    assert run(quiet) == [1, 14, 1]
    assert run(ONCE) == [0, 14, 1]


def test_an_entry_that_the_plugin_refuses_is_compiled_anew(run):
    code = f"""
        {ONCE.replace("print", "first = ")}
        (kept,) = folder.entries()
        key = os.path.basename(kept.path).partition(".")[0]
        folder.put(key, b"x" * 100, name="add")
        {ONCE}
    """
    assert run(code) == [2, 14, 1]


def test_custom_calls_are_left_to_the_compiler(run):
    code = """
        client.register_custom_call("twice", lambda a: a * 2)
        text = ADD.replace(
            "stablehlo.add %a, %b :",
            "stablehlo.custom_call @twice(%a) {api_version = 4 : i32} : (tensor<8xf32>) ->")
        print(json.dumps([run(client.compile_and_load(text))[7], entries()]))
    """
    assert run(code) == [14, 0]


def test_bytecode_that_devrt_cannot_read_is_left_to_the_compiler(run):
    code = """
        from devrt.compiling import Program, ProgramFacts
        Program.facts = ProgramFacts(is_whole=False)
        print(json.dumps([run(client.compile_and_load(ADD))[7], entries()]))
    """
    assert run(code) == [14, 0]


def test_what_a_kept_program_takes_over_is_known_where_the_plugin_does_not_tell(run):
    code = """
        from devrt_pjrt.programs.compiled import Executable
        Executable.facts = None
        made = client.compile_and_load(ADD.replace("%a: tensor<8xf32>",
            "%a: tensor<8xf32> {tf.aliasing_output = 0 : i32}"))
        a, b = client.buffer_from_pyval(X), client.buffer_from_pyval(X)
        made.execute([a, b])
        print(json.dumps([len(compiles), a.is_deleted(), b.is_deleted()]))
    """
    assert run(code) == [1, True, False]
    assert run(code) == [0, True, False]


@pytest.mark.parametrize("value", ["false", "0"])
def test_it_can_be_turned_off(run, value):
    assert run(ONCE, DEVRT_ENABLE_COMPILATION_CACHE=value) == [1, 14, 0]


def test_a_client_of_ones_own_keeps_nothing_unasked(xla_cpu_library, add_text, tmp_path):
    from devrt.compiling.cache import ExecutableCache

    library = devrt_pjrt.library_for("xla_cpu_tests", xla_cpu_library)
    with devrt_pjrt.make_client(library, "own") as client:
        client.compile_and_load(add_text)
    cache = ExecutableCache(tmp_path / "own")
    requests = []
    opens = lambda: requests.append(1) or cache  # noqa: E731
    with devrt_pjrt.make_client(library, "own", None, opens) as client:
        assert not requests
        client.compile_and_load(add_text)
        client.compile_and_load(add_text)
    assert (len(requests), len(cache.entries())) == (1, 1)
