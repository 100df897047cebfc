"""A training loop goes on for ever: on both clients, with every engine, donated or not."""

import itertools
from pathlib import Path

import pytest

from devrt.compiling import xla_cpu_engines
from support import run_python

DRIVER = Path(__file__).with_name("training_loops.py")
CLIENTS = ["cpu", "loader"]
ENGINES = [engine.wheel for engine in xla_cpu_engines.ENGINES]

SHAPES = [
    *(("chains", devices) for devices in (1, 2, 8)),
    *itertools.product(("replicas", "sharded", "collective"), (2, 8)),
]
PATTERNS = [
    f"{shape}/{kept}/{devices}/{floats}/{threads}"
    for (shape, devices), kept, floats, threads in itertools.product(
        SHAPES, ("donated", "kept"), (64, 65_536, 262_144), (1, 4)
    )
]
SHORT = [p for p in PATTERNS if "/65536/" in p and ("donated" in p or p.endswith("/1"))]


def library_of(engine):
    choice = pytest.importorskip("devrt_cpu._library")
    found = {library.wheel: library.path for library in choice.installed()}
    return found.get(engine) or pytest.skip(f"{engine} is not installed")


def run(client, library, steps, seconds, patterns):
    """Run loops in a child, which ends itself where one stops."""
    module = {"cpu": "devrt_cpu", "loader": "devrt_tpu"}[client]
    pytest.importorskip(module, reason=f"needs {module}")
    arguments = (DRIVER, client, library, steps, seconds, *patterns)
    timeout = (seconds + 100) * len(patterns)
    done = run_python("-W", "error", *arguments, timeout=timeout)
    return done.stdout.splitlines()


@pytest.mark.parametrize("client", CLIENTS)
def test_loops_go_on(client, cpu_library):
    assert len(run(client, cpu_library.path, 150, 0.25, SHORT)) == len(SHORT)


@pytest.mark.stress
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("client", CLIENTS)
def test_loops_go_on_for_20000_steps_or_a_minute(client, engine, pattern, record_property):
    (line,) = run(client, library_of(engine), 20_000, 60, [pattern])
    record_property("loop", line)
