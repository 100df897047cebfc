"""The CUDA backend on simulated devices, which need no hardware."""

import json
import os
import subprocess
import sys

import pytest

from gpu_conformance import LEVELS, check_level
from support import xla_cpu_library


@pytest.mark.parametrize("level", ["memory", *LEVELS])
def test_every_case_passes(monkeypatch, level):
    check_level(monkeypatch, "cuda", level)


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
