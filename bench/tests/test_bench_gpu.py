"""The cases for GPUs on simulated devices: that they run, not how long they take."""

import json
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

import devrt
from bench import cli, store, table
from bench.case import Spec
from bench.driver import run_subject, start_worker
from bench.environments import Environment, load_peers
from bench.sides import ROOT, variables
from bench.subjects import ON_HARDWARE, SUBJECTS, gpu
from devrt_cuda import _ext
from support import shared_library

PEERS = load_peers()
KERNELS = """#include "gpu_simulator/kernel.h"
void touch(const devrt_simulator_launch* launch, void* const* parameters) {}
const unsigned touch_parameters[] = {8, 0};
void touch_all(const devrt_simulator_launch* launch, void* const* parameters) {}
const unsigned touch_all_parameters[] = {8, 8, 8, 8, 8, 8, 8, 8, 0};
"""
EACH_CASE = """
import json, sys
from bench.subjects import gpu
side, *names = sys.argv[1:]
cases = getattr(gpu, side + "_cases")()
for name in names:
    cases[name]().seconds(1)
print(json.dumps([*cases]))
"""
QUICK = 32 << 20  # bytes; larger points of a sweep are the same code
MODULES = "cupy jax jax.numpy rmm torch cuda.core"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    headers = Path(devrt.__file__).parent / "native" / "src"
    folder = tmp_path_factory.mktemp("kernels")
    return shared_library(folder / "kernels.so", KERNELS, f"-I{headers}")


@pytest.fixture
def on_simulated_devices(monkeypatch, kernels):
    simulator = Path(_ext.__file__).with_name("libdevrt_cuda_simulator.so")
    monkeypatch.setenv("DEVRT_CUDA_MOCK", "1")
    monkeypatch.setenv("DEVRT_BENCH_CUDA_DRIVER", str(simulator))
    monkeypatch.setenv("DEVRT_BENCH_KERNELS", str(kernels))


def named(environment):
    """Return the cases that an environment has a part in, and those of them that are quick."""
    specs = [spec for spec in gpu.SPECS if environment in ("devrt", *spec.peers)]
    quick = [spec.name for spec in specs if spec.sweep is None or spec.sweep.x <= QUICK]
    return {spec.name for spec in specs}, quick


@pytest.mark.engine
@pytest.mark.parametrize("environment", ["devrt", "devrtbfc", "driver"])
def test_each_case_runs_once(on_simulated_devices, environment):
    peer, (names, quick) = PEERS[environment], named(environment)
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EACH_CASE, peer.side, *quick],
        env=variables(peer.side, platform="gpu") | peer.variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert set(json.loads(ran.stdout)) >= names


@pytest.mark.parametrize("environment", ["cudacore", "cupy", "jaxgpu", "rmm", "torch"])
def test_a_side_has_each_case_that_names_it(monkeypatch, environment):
    for name in MODULES.split():
        monkeypatch.setitem(sys.modules, name, MagicMock(__name__=name))
    cases, (names, quick) = getattr(gpu, f"{PEERS[environment].side}_cases")(), named(environment)
    assert set(cases) >= names
    for name in quick:  # as far as it goes without the library
        cases[name]().seconds(1)


def test_a_worker_measures_a_case_and_says_what_the_device_is(on_simulated_devices):
    environment = Environment(PEERS["devrt"], sys.executable)
    with start_worker(environment, Spec("", platform="gpu")) as worker:
        hello = {"op": "hello", "library": "devrt", "platform": "gpu"}
        assert "(simulated)" in worker.ask(hello, 60)["device"]
        worker.ask({"op": "prepare", "subject": "gpu", "case": gpu.LAUNCH}, 60)
        assert min(worker.ask({"op": "block"}, 60)["seconds"]) > 0


class Answers:
    """A worker whose every call takes a second, or as many as are given."""

    is_alive = True

    def __init__(self, kind, seconds=1.0):
        self.kind = kind
        self.seconds = seconds

    def ask(self, request, timeout):
        return {"device": self.kind, "seconds": [self.seconds]}

    def close(self):
        pass


def row_of(kind, **seconds):
    """Return the row of a case with a bar where calls of the sides take so many seconds."""
    made = {name: Environment(PEERS[name], sys.executable) for name in ("devrt", "driver")}
    context = cli.Context(made, cli.Options(blocks=1))
    spec = next(spec for spec in gpu.SPECS if spec.bars == (("driver", 1.1),))

    def start(environment, _):
        return Answers(kind, seconds.get(environment.peer.side, 1.0))

    (row,) = run_subject(context, "gpu", [spec], start)
    return row


@pytest.mark.parametrize(("kind", "bar"), [("NVIDIA H200", 1.1), ("NVIDIA H200 (simulated)", None)])
def test_a_bar_is_held_against_gpus_alone(kind, bar):
    assert row_of(kind).bar == bar


@pytest.mark.parametrize("side", ["devrt", "driver"])
@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_cost_that_is_lost_in_noise_keeps_no_bar_and_misses_none(side, seconds):
    row = row_of("NVIDIA H200", **{side: seconds})
    assert (row.ratio, row.keeps_bar) == (None, None)
    assert "noise" in table.render([row])
    assert "0 kept, 0 missed, 1 without a figure" in table.render([row])


def test_bars_are_of_peers_that_a_case_has():
    assert [spec.name for spec in gpu.SPECS if not {*dict(spec.bars)} <= {*spec.peers}] == []


@pytest.mark.parametrize(
    ("kind", "name"),
    [("NVIDIA H200", "nvidia-h200.json"), ("NVIDIA H200 (simulated)", None), ("", None)],
)
def test_the_figures_of_a_gpu_have_a_file_of_their_own(monkeypatch, kind, name):
    written = []
    monkeypatch.setattr(store, "write", lambda path, facts, _: written.append((path.name, facts)))
    context = cli.Context({}, cli.Options(), versions={"devrt": {"device": kind}})
    cli.write("gpu", {}, context)
    assert [name for name, _ in written] == ([name] if name else [])
    assert all(facts["device"] == kind for _, facts in written)


def test_a_gpu_is_measured_only_when_it_is_named():
    assert set(SUBJECTS) >= ON_HARDWARE == {"gpu"}
