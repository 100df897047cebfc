"""The CUDA backend on simulated devices, which need no hardware."""

import json
import os
import subprocess
import sys

import pytest

from devrt.testing.conformance import Status, conform
from support import xla_cpu_library

# Of the last, about one of forty runs failed in an assembly whose sources are deleted at once (two
# elements were wrong), which is not explained yet.
LEVELS = (
    "load",
    "transfer",
    pytest.param("execute", marks=pytest.mark.engine),
    *(pytest.param(name, marks=pytest.mark.stress) for name in ("memory", "shard")),
)


@pytest.mark.parametrize("level", LEVELS)
def test_every_case_passes(monkeypatch, level):
    monkeypatch.setenv("DEVRT_CUDA_MOCK", "2")
    monkeypatch.delenv("TEST_LEAK_WARNINGS", raising=False)  # users do not set it, and forks differ
    report = conform("cuda@devrt-cuda", level)
    assert [f"{result.id}: {result.came}" for result in report.failures] == []
    assert any(result.status is Status.PASSED for result in report.results)


PROGRAM = """
import json
import devrt
import numpy as np

devices = devrt.devices("cuda")
x = devrt.device_put(np.arange(8, dtype=np.float32), devices[0])
there = devrt.device_put(x, devices[1])
kinds = sorted({device.device_kind for device in devices})
try:
    came = np.asarray(x + 1).tolist()
except devrt.errors.UnimplementedError as error:
    came = str(error)
print(json.dumps([len(devices), kinds, np.asarray(there).tolist(), came]))
"""


def test_arrays_go_to_simulated_devices_and_programs_run_there():
    xla_cpu_library()
    environ = os.environ | {"DEVRT_CUDA_MOCK": "2"}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    count, kinds, values, sums = json.loads(ran.stdout)
    assert count == 2
    assert all("simulated" in kind for kind in kinds)
    assert values == list(range(8))
    assert sums == list(range(1, 9))
