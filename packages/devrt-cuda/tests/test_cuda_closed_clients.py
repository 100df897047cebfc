"""Clients of simulated devices that were closed: nothing keeps what their programs took."""

import gc
import os
import time

import numpy as np
import pytest

import devrt
from closed_clients import doubled, used
from devrt.runtime import default_runtime
from support import xla_cpu_library

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def compiler():
    xla_cpu_library()


def make(platform):
    given = {} if platform == "cpu" else {"mock": True, "mock_gpu_topology": "1"}
    return default_runtime().make_client(platform, given)


@pytest.mark.parametrize("platform", ["cpu", "cuda", "rocm"])
def test_a_closed_client_keeps_no_threads(devices, platform):
    pytest.importorskip(f"devrt_{platform}")
    used(make(platform))
    gc.collect()
    before = len(os.listdir("/proc/self/task"))
    clients = [used(make(platform)) for _ in range(4)]
    gc.collect()
    assert [each() for each in clients] == [None] * 4
    for _ in range(500):  # a thread that is to end may not have had a processor yet
        if len(os.listdir("/proc/self/task")) <= before:
            return
        time.sleep(0.02)
    pytest.fail("threads of closed clients go on")


def test_programs_of_open_clients_stay(devices):
    x = devrt.device_put(np.ones(4, np.float32), devices[0])
    for _ in range(3):
        doubled(x)
    entries = doubled._calls.programs.entries
    before = set(entries)
    used(make("cuda"))
    assert set(entries) <= before
    assert [launch.devices for launch, _ in entries.values()] == [(devices[0],)]
    assert np.asarray(doubled(x)).tolist() == [2] * 4
