"""The ROCm backend on simulated devices, which need no hardware."""

import os
import subprocess
import sys

import pytest

import gpu_library
from gpu_conformance import LEVELS, check_level


@pytest.mark.parametrize("level", [pytest.param("memory", marks=pytest.mark.stress), *LEVELS])
def test_every_case_passes(monkeypatch, level):
    check_level(monkeypatch, "rocm", level)


PROGRAM = """
import devrt
import numpy as np

x = devrt.device_put(np.arange(4, dtype=np.int32), devrt.devices("rocm")[1])
class Shown:
    # The interface calls a default stream so.
    __cuda_array_interface__ = x.__cuda_array_interface__ | {"stream": 1}
shared = devrt.device_put(Shown(), may_alias=True)
assert shared.device == x.device and shared.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
for stream in (None, 0, -1, x.device.get_stream_for_external_ready_events()):
    x.__dlpack__(stream=stream)
for stream in (1, 2):
    try:
        x.__dlpack__(stream=stream)
    except devrt.errors.InvalidArgumentError as error:
        print(error)
"""


def test_the_default_stream_is_0_and_the_interface_has_its_usual_name():
    environ = os.environ | {"DEVRT_ROCM_MOCK": "2"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert ran.stdout.count("the default stream is 0") == 2


BEYOND = """
import devrt
from gpu_library import Driver, allocate

device = devrt.devices("rocm")[0]
driver = Driver("rocm")
driver.use_first_device()
address = allocate(driver, 16)
class Shown:
    __cuda_array_interface__ = {
        "shape": (5,), "typestr": "<i4", "data": (address, False), "version": 3
    }
try:
    devrt.device_put(Shown(), may_alias=True)
except devrt.errors.InvalidArgumentError as error:
    print(error)
"""


def test_an_interface_that_reaches_out_of_its_memory_is_refused():
    support = os.path.dirname(gpu_library.__file__)
    environ = os.environ | {"DEVRT_ROCM_MOCK": "1", "PYTHONPATH": support}
    command = [sys.executable, "-W", "ignore", "-c", BEYOND]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert "has bytes 0 to 20 from" in ran.stdout
    assert "on rocm:0, has bytes 0 to 16." in ran.stdout
