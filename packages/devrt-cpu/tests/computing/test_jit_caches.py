"""Programs are made once, shared, and dropped: by threads, processes, and with their functions."""

import gc
import os
import pathlib
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import devrt
from devrt import jit
from devrt.runtime import default_runtime

pytestmark = pytest.mark.engine

X = np.arange(8, dtype=np.float32)


def test_threads_that_meet_make_one_program(cpu):
    traces, start = [], threading.Barrier(8)

    @jit
    def f(x):
        traces.append(threading.get_ident())
        return x * 2 + 1

    made = []

    def call():
        start.wait()
        made.append(np.asarray(f(X)))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traces) == 1
    assert all(np.array_equal(each, X * 2 + 1) for each in made)


def test_a_trace_in_one_thread_is_none_of_another_s(cpu):
    seen = []

    def f(x):
        thread = threading.Thread(target=lambda: seen.append(np.asarray(devrt.device_put(X) + 1)))
        thread.start()
        thread.join()
        return x + 2

    jit(f)(X)
    np.testing.assert_array_equal(seen[0], X + 1)


def test_programs_go_with_their_functions(cpu):
    def made():
        def f(x):
            return x + 3

        function = jit(f)
        function(X)
        (launch, _) = next(iter(function._calls.programs.entries.values()))
        return weakref.ref(f), weakref.ref(launch)

    function, launch = made()
    gc.collect()
    assert function() is None
    assert launch() is None


def test_caches_are_cleared(cpu):
    traces = []

    @jit
    def f(x):
        traces.append(x)
        return x + 4

    f(X), f(X)
    assert len(traces) == 1
    f.clear_cache()
    f(X)
    assert len(traces) == 2
    devrt.clear_caches()
    assert f._cache_size() == 0
    np.testing.assert_array_equal(f(X), X + 4)
    assert len(traces) == 3


def test_one_text_is_compiled_once(cpu, monkeypatch):
    count = []
    compile_and_load = type(cpu[0].client).compile_and_load

    def counted(self, *args, **options):
        count.append(args)
        return compile_and_load(self, *args, **options)

    monkeypatch.setattr(type(cpu[0].client), "compile_and_load", counted)
    f = jit(lambda x: x + 5)
    f(devrt.device_put(X)), f(devrt.device_put(X, default_runtime().default_device())), f(X)
    assert len(count) == 1


_PROGRAM = """
import functools
import devrt
import numpy as np
from devrt import grad, jit, lax, random, shard_map, Mesh, NamedSharding, P

{lines}
bias = np.arange(1000, dtype=np.float32)

@functools.partial(jit, static_argnames=("names", "power"))
def f(tree, names, power):
    made = dict((name, tree[name] * power + bias) for name in sorted(names))
    return made, sum(made.values())

@jit
@grad
def loss(w):
    def step(carry, row):
        row = lax.cond(carry > 0, abs, lambda x: -x, row)
        return carry * row + random.normal(random.key(0), ()), row
    return sum(x.sum() for x in lax.scan(step, 1.0, w))

mesh = Mesh(np.array(devrt.devices("cpu")), ("x",))
x = devrt.device_put(np.ones(1000, np.float32), NamedSharding(mesh, P("x")))
made, total = f({{"a": x, "b": x, "c": 2.0}}, frozenset(["a", "b", "c"]), power=3)
mapped = shard_map(lambda x: lax.psum(x, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
print(float(total[1]), np.asarray(loss(x))[::300], np.asarray(mapped(x + bias)[:3]))
"""


def run(folder, lines, seed, cache):
    """Run the program in a process; return what it prints, and the files of the disk cache."""
    folder.mkdir()
    program = folder / f"program_{seed}.py"
    program.write_text(_PROGRAM.format(lines=lines), encoding="utf-8")
    environment = {
        **os.environ,
        "PYTHONHASHSEED": str(seed),
        "DEVRT_COMPILATION_CACHE_DIR": str(cache),
        "DEVRT_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "DEVRT_NUM_CPU_DEVICES": "8",
    }
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # What is compiled anew is written anew, with other facts: the seconds that compiling took.
    files = (path for path in pathlib.Path(cache).rglob("*") if path.is_file())
    return done.stdout, {path.name: path.read_bytes() for path in files}


def test_the_disk_cache_finds_programs_of_another_process_folder_and_line(tmp_path):
    cache = tmp_path / "cache"
    printed, kept = run(tmp_path / "here", "", 1, cache)
    assert len(kept) >= 4
    again, found = run(tmp_path / "there", "# a line\n" * 7, 2, cache)
    assert again == printed
    assert found.keys() == kept.keys()
    assert found == kept
