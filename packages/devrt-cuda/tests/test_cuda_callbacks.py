"""Functions that programs of simulated devices call, and that use devices themselves."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import devrt
from devrt.errors import DevrtError
from gpu_library import simulated_platform
from support import xla_cpu_library

pytestmark = pytest.mark.engine

SPEC = devrt.ShapeDtypeStruct((4,), np.float32)


@pytest.fixture(scope="module")
def devices():
    xla_cpu_library()
    with simulated_platform() as found:
        yield found


def calling(function):
    return devrt.jit(lambda a: devrt.pure_callback(function, SPEC, a))


def test_a_program_on_the_device_that_calls_is_refused(devices):
    x = devrt.device_put(np.ones(4, np.float32), devices[0])
    with pytest.raises(DevrtError, match=r"cuda:0 .*calls.*Compute with NumPy"):
        np.asarray(calling(lambda v: np.asarray(x + 1))(x))
    assert np.asarray(x + 1).tolist() == [2] * 4  # the device goes on


def test_a_result_of_a_later_program_is_not_waited_for(devices):
    x = devrt.device_put(np.ones(4, np.float32), devices[0])
    later, started = [], threading.Event()

    def wait(v):
        started.wait()
        return np.asarray(later[0])

    y = calling(wait)(x)
    later.append(x + 1)
    started.set()
    with pytest.raises(DevrtError, match=r"block_until_ready failed.*cuda:0"):
        np.asarray(y)


def test_another_device_and_copies_may_be_used(devices):
    x = devrt.device_put(np.ones(4, np.float32), devices[0])
    there = devrt.device_put(np.ones(4, np.float32), devices[1])
    assert np.asarray(calling(lambda v: np.asarray(there + v))(x)).tolist() == [2] * 4
    copied = calling(lambda v: np.asarray(devrt.device_put(np.asarray(v) + 2, devices[0])))
    assert np.asarray(copied(x)).tolist() == [3] * 4


def test_a_process_ends_after_it():
    program = """
import warnings
warnings.simplefilter("ignore")
import numpy as np, devrt
x = devrt.device_put(np.ones(4, np.float32))
f = devrt.jit(lambda a: devrt.pure_callback(
    lambda v: np.asarray(x + 1), devrt.ShapeDtypeStruct((4,), np.float32), a))
f(x)
"""
    environ = {"DEVRT_CUDA_MOCK": "1", "DEVRT_PLATFORMS": "cuda,cpu"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | environ, timeout=60, check=False
    )
    assert done.returncode == 0
