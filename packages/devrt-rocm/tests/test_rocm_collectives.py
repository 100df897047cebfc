"""Collectives on simulated AMD devices, and RCCL."""

import pytest

from devrt import hardware
from devrt.errors import BackendUnavailableError
from devrt_rocm.collectives import RCCL
from support import python

VALUES = """
import ctypes, os
import numpy as np
import devrt
import devrt_rocm._ext

devices = devrt.devices("rocm")
client = devices[0].client
folder = os.path.dirname(devrt_rocm._ext.__file__)
simulator = ctypes.CDLL(os.path.join(folder, "libdevrt_rocm_simulator.so"))
simulator.devrt_simulator_reports.restype = ctypes.c_char_p

values = [np.arange(8, dtype=np.float32).reshape(4, 2) + i for i in range(4)]
arrays = [devrt.device_put(each, to) for each, to in zip(values, devices, strict=True)]
group = client.collectives()
cases = [
    (group.all_reduce(arrays, "avg"), [sum(values) / 4] * 4),
    (group.all_gather(arrays), [np.stack(values)] * 4),
    (group.reduce_scatter(arrays, "max"), list(values[3])),
    (group.all_to_all(arrays), list(np.stack(values).swapaxes(0, 1))),
    (group.broadcast(arrays, 2), [values[2]] * 4),
    (group.permute(arrays, [(0, 3), (3, 1)]), [0 * values[0], values[3], 0 * values[0], values[0]]),
]
for results, expected in cases:
    for result, right in zip(results, expected, strict=True):
        assert (np.asarray(result) == right).all()
client.close()
print(simulator.devrt_simulator_reports(1).decode() or "no reports")
"""


def test_arrays_are_exchanged():
    ran = python(VALUES, options=("-W", "ignore"), DEVRT_ROCM_MOCK="4")
    assert ran.stdout.strip() == "no reports"


def test_an_absent_library_says_what_to_install(monkeypatch):
    monkeypatch.delenv(RCCL.library.variable, raising=False)
    if path := hardware.find_shared_library(
        *RCCL.library.names, folders=RCCL.library.system_folders
    ):
        pytest.skip(f"RCCL is installed: {path}")
    with pytest.raises(BackendUnavailableError, match=r"librccl\.so\.1 .*ROCm's package rccl"):
        RCCL.library.path("collectives")
