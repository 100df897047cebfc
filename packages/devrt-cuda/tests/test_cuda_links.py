"""Links and readings of NVIDIA's GPUs through NVML: the real binding over a library of the tests.

Against a real NVML this has not run.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import shared_library

pytest.importorskip("pynvml")

PROGRAM = """
import json
import pynvml
from types import SimpleNamespace

from devrt_cuda._nvml import machine, nvlinks, readings

devices = [
    SimpleNamespace(id=10 + i, attributes={"pci_bus_id": f"0000:{bus}:00.0"})
    for i, bus in enumerate(("3d", "3e", "3f"))
]
links = [[link.first, link.second, link.kind, link.count] for link in nvlinks(devices)]
first, second, _ = readings(devices)
print(json.dumps([links, [first.memory_used, first.memory_total, first.utilization],
    [first.temperature, first.power], [[p.pid, p.bytes] for p in first.processes],
    [second.utilization, len(second.processes)], [[r.device, r.kind, r.pci_bus_id]
    for r in machine()], machine()[0].processes == first.processes,
    [r.memory_numa_node for r in machine()]]))
pynvml.nvmlDeviceGetNumaNodeId = None  # of 12.535
assert readings(devices)[0].memory_numa_node is None
"""


def run(program, **environ):
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


@pytest.fixture
def library(tmp_path):
    """Return the folder of a libnvidia-ml.so.1 that is made for the test."""
    source = Path(__file__).with_name("nvml_stand_in.c")
    shared_library(tmp_path / "libnvidia-ml.so.1", source)
    return tmp_path


def test_links_and_readings(library):
    answer = json.loads(run(PROGRAM, LD_LIBRARY_PATH=str(library)))
    links, memory, sensors, processes, second, machine, same, nodes = answer
    assert links == [[10, 11, "NV", 4], [10, 12, "NV", 2]]
    assert memory == [3 << 30, 80 << 30, 37]
    assert sensors == [41, 71.5]
    assert processes == [[17, None], [4242, 2 << 30]]
    assert second == [None, 0]
    addresses = ("0000:3d:00.0", "0000:3e:00.0", "0000:3f:00.0")
    assert machine == [[i, f"NVIDIA Stand-in {i}", a] for i, a in enumerate(addresses)]
    assert same
    assert nodes == [9, None, None]


WITHOUT = """
from devrt.errors import BackendUnavailableError
from devrt_cuda._nvml import nvlinks

try:
    nvlinks([])
except BackendUnavailableError as error:
    print(error)
"""


def test_where_there_is_no_nvml_the_error_says_what_brings_it(tmp_path):
    if "libnvidia-ml" in subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout:
        pytest.skip("libnvidia-ml.so.1 is installed")
    message = run(WITHOUT)
    assert "libnvidia-ml.so.1" in message
    assert "NVIDIA_DRIVER_CAPABILITIES" in message


def devrt(*arguments, **environ):
    command = [sys.executable, "-m", "devrt", *arguments]
    return subprocess.run(
        command, env=os.environ | environ, capture_output=True, text=True, timeout=120
    )


def test_topo_draws_the_links_of_simulated_devices():
    environ = {"DEVRT_CUDA_MOCK": "4", "DEVRT_GPU_SIMULATOR": "group=2"}
    done = devrt("topo", "--platform", "cuda", "--json", **environ)
    (platform,) = json.loads(done.stdout)["platforms"]
    assert platform["matrix"] == [
        ["X", "SIM", "SYS", "SYS"],
        ["SIM", "X", "SYS", "SYS"],
        ["SYS", "SYS", "X", "SIM"],
        ["SYS", "SYS", "SIM", "X"],
    ]
    assert platform["problem"] is None


def test_the_demo_on_simulated_devices_says_so_and_shows_their_topology():
    done = devrt("demo", "--mock", "cuda:2x4")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("These devices are SIMULATED: cuda:2x4")
    assert "cuda:3  SIM     SIM     SIM     X" in done.stdout
    assert "and 4 devices of other processes" in done.stdout
    assert "DIFFERENT" not in done.stdout
    # The second where no compiler for the CPU is installed, which runs the simulation's programs.
    assert ("x + 1: identical" in done.stdout) != ("not run: " in done.stdout)


@pytest.mark.parametrize("command", ["demo", "topo"])
@pytest.mark.parametrize(
    ("requested", "says"),
    [
        ("cuda", "PLATFORM:4"),
        ("cpu:2", "no simulated"),
        ("cuda:2y4", "or 2x4x8 (slices, nodes of each, devices of each), not '2y4'"),
        ("cuda:x", "not 'x'"),
        ("cuda:-1", "not '-1'"),
        ("cuda:0", "at least 1 and at most 1024 devices, not 0"),
        ("cuda:2x0", "at least 1 and at most 1024 devices, not 0"),
        ("cuda:0x4", "at least 1 and at most 65536 nodes, not 0"),
        ("cuda:1025", "at most 1024 devices, not 1025"),
    ],
)
def test_commands_refuse_what_they_cannot_simulate_by_the_argument(command, requested, says):
    done = devrt(command, "--mock", requested)
    assert done.returncode == 1
    assert says in done.stderr
    named = f"platform {requested.partition(':')[0]!r}" if "simulated" in says else repr(requested)
    assert named in done.stderr
    assert "--mock" in done.stderr or "simulated" in says
    assert "_mock" not in done.stderr.lower()
    assert "Correct the value" not in done.stderr


def test_top_shows_simulated_devices_of_which_nobody_reports_the_use():
    environ = {"DEVRT_CUDA_MOCK": "2"}
    found = json.loads(devrt("top", "--platform", "cuda", "--json", **environ).stdout)
    assert [row["id"] for row in found["devices"]] == [0, 1]
    first, kinds = found["devices"][0], ("device", "pinned_host", "unpinned_host", "managed")
    assert first["memory"] == dict.fromkeys(kinds, 0)
    assert first["total"] == 1 << 30
    assert (first["used"], first["utilization"], first["processes"]) == (None, None, [])
    assert "cuda" not in found["problems"]
    once = devrt("top", "--platform", "cuda", "--once", **environ).stdout.splitlines()
    assert once[0].split()[:4] == ["device", "used", "total", "busy"]
    assert once[1].endswith("(simulated)")
