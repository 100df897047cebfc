"""The tests that wait for a GPU, on simulated devices: where they fail, they would on a GPU too."""

import importlib
import os
import re
from pathlib import Path

import pytest

from support import run_python

TESTS = Path(__file__).parents[3] / "tests" / "gpu"
DRIVERS = {"cuda": "libcuda.so.1", "rocm": "libamdhip64.so.7"}
OF_OTHER_LIBRARIES = {
    "test_torch_reads_behind_what_fills_an_array",
    "test_devrt_reads_behind_what_torch_does",
    "test_memory_is_shared_with_cupy_both_ways",
    "test_memory_is_shared_with_jax_both_ways",
    "test_programs_give_what_xlas_own_client_gives",
}
OF_CUDA = {
    "test_closing_gives_the_memory_back",
    "test_the_pool_is_shared_and_keeps_what_is_freed",
}
SKIPPED = {"cuda": OF_OTHER_LIBRARIES, "rocm": OF_OTHER_LIBRARIES | OF_CUDA}


@pytest.mark.engine
def test_what_waits_for_a_gpu_runs_on_simulated_devices(vendor, tmp_path):
    platform = vendor.platform
    module = importlib.import_module(f"devrt_{platform}._ext")
    simulator = Path(module.__file__).with_name(f"libdevrt_{platform}_simulator.so")
    (tmp_path / DRIVERS[platform]).symlink_to(simulator)  # for tests that call the driver
    folders = filter(None, [str(tmp_path), os.environ.get("LD_LIBRARY_PATH")])
    ran = run_python(
        *("-m", "pytest", "-v", "-p", "no:cacheprovider", TESTS, f"--require-device={platform}"),
        clean=("PYTEST_",),
        status=None,
        LD_LIBRARY_PATH=os.pathsep.join(folders),
        TEST_GPU_SIMULATED=1,
    )
    assert ran.returncode == 0, ran.stdout[-8000:]
    assert set(re.findall(r"::(\w+)\S* SKIPPED", ran.stdout)) == SKIPPED[platform]
