"""What the doctor and errors say of the variables that hide GPUs."""

import os
import subprocess
import sys

import pytest

from devrt_rocm._visibility import findings


def found(**environ):
    return [(each.code, each.severity, each.message) for each in findings(environ)]


@pytest.mark.parametrize(
    ("name", "shown", "severity", "says"),
    [
        ("ROCR_VISIBLE_DEVICES", "", "warning", "shows none"),
        ("ROCR_VISIBLE_DEVICES", "2, 0", "info", "at most 2, in this order"),
        ("ROCR_VISIBLE_DEVICES", "gpu-deadbeef", "info", "at most 1,"),
        ("HIP_VISIBLE_DEVICES", "-1", "warning", "shows none"),
        ("HIP_VISIBLE_DEVICES", "1,-1,0", "info", "at most 1,"),
        ("HIP_VISIBLE_DEVICES", "2, 0", "info", "at most 1,"),
        ("CUDA_VISIBLE_DEVICES", "1,0", "info", "HIP shows at most 2"),
    ],
)
def test_one_variable(name, shown, severity, says):
    ((code, level, message),) = found(**{name: shown})
    assert (code, level) == ("devices-hidden", severity)
    assert says in message


def test_hips_variable_counts_what_the_runtimes_leaves_and_jaxs_what_hips_does():
    names = ("ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "JAX_ROCM_VISIBLE_DEVICES")
    first, second, third = found(**dict.fromkeys(names, "1"))
    assert "renumbered" not in first[2]
    assert "as ROCR_VISIBLE_DEVICES renumbered" in second[2]
    assert "as HIP_VISIBLE_DEVICES renumbered" in third[2]
    assert found(JAX_ROCM_VISIBLE_DEVICES="all") == []


def test_variables_that_hip_does_not_read():
    assert found(HIP_VISIBLE_DEVICES="") == []
    both = found(HIP_VISIBLE_DEVICES="0", CUDA_VISIBLE_DEVICES="1", GPU_DEVICE_ORDINAL="0")
    assert [code for code, _, _ in both] == ["devices-hidden", *["devices-not-hidden"] * 2]
    assert both[0][2].startswith("HIP_VISIBLE_DEVICES='0'")
    ((_, _, message),) = found(HIP_VISIBLE_DEVICES="", CUDA_VISIBLE_DEVICES="1")
    assert message.startswith("CUDA_VISIBLE_DEVICES='1': of the devices HIP shows at most 1")


PROGRAM = """
import devrt_rocm._ext
from devrt.errors import InvalidArgumentError
from devrt.native import gpu
from devrt.native.gpu_simulation import simulator_library
from devrt.records import ClientContext
from devrt_rocm._platform import PLATFORM

# The simulator stands in for the driver, and does not count as simulated devices.
library = simulator_library(PLATFORM.simulator_path(devrt_rocm._ext), "rocm", 2)
gpu.GpuPlatform._driver_library = lambda self: library
for options in ({}, {"mock_num_gpus": 2, "mock": True}):
    try:
        PLATFORM.make_client(ClientContext(options={"allowed_devices": [7], **options}))
    except InvalidArgumentError as error:
        print(error.message)
"""


def test_an_error_of_allowed_devices_names_the_variables_that_hide_devices():
    environ = os.environ | {"ROCR_VISIBLE_DEVICES": "0,1", "JAX_ROCM_VISIBLE_DEVICES": "1"}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM]
    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    real, simulated = ran.stdout.splitlines()
    assert "names device 7" in real
    assert "are set: ROCR_VISIBLE_DEVICES='0,1', JAX_ROCM_VISIBLE_DEVICES='1'." in real
    assert "are set: JAX_ROCM_VISIBLE_DEVICES='1'." in simulated
