"""The cases for GPUs on simulated devices: that they run, not how long they take."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench import cli, store
from bench.case import Spec
from bench.driver import start_worker
from bench.environments import Environment, load_peers
from bench.subjects import ON_HARDWARE, SUBJECTS, gpu
from devrt_cuda import _ext

CASES = (
    (gpu.SMALL, ("devrt",)),
    ("put of page-locked memory, waited for, 16384 bytes", ("devrt", "driver")),
    ("fetch to page-locked memory, 16384 bytes", ("devrt", "driver")),
    ("put of pageable memory, waited for, 16384 bytes", ("devrt",)),
    ("fetch to pageable memory, 16384 bytes", ("devrt",)),
)


@pytest.fixture(scope="module")
def simulator():
    return str(Path(_ext.__file__).with_name("libdevrt_cuda_simulator.so"))


@pytest.fixture
def on_simulated_devices(monkeypatch, simulator):
    monkeypatch.setenv("DEVRT_CUDA_MOCK", "1")
    monkeypatch.setenv("DEVRT_BENCH_CUDA_DRIVER", simulator)


@pytest.mark.parametrize("side", ["devrt", "driver"])
def test_copies_run_on_every_side(on_simulated_devices, side):
    environment = Environment(load_peers()[side], sys.executable)
    cases = [name for name, sides in CASES if side in sides]
    assert {spec.name for spec in gpu.SPECS} >= set(cases)
    with start_worker(environment, Spec("", platform="gpu")) as worker:
        hello = {"op": "hello", "library": environment.peer.library, "platform": "gpu"}
        seen = worker.ask(hello, 60)
        assert "(simulated)" in seen.get("device", "(simulated)")
        for case in cases:
            worker.ask({"op": "prepare", "subject": "gpu", "case": case}, 60)
            assert min(worker.ask({"op": "block"}, 60)["seconds"]) > 0


def test_a_side_has_every_case_that_names_it(on_simulated_devices, monkeypatch):
    named = {spec.name for spec in gpu.SPECS if "driver" in spec.peers}
    code = "import json; from bench.subjects import gpu; print(json.dumps([*gpu.driver_cases()]))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert named == set(json.loads(ran.stdout))


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
