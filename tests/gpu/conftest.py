"""Tests of real GPUs: skipped where there is none, unless the caller says that there must be.

pytest tests/gpu --require-device=cuda

With TEST_GPU_SIMULATED=1 they run on simulated devices, which shows mistakes of the tests alone:
the ordinary suite does that.
"""

import os

import pytest

from devrt.errors import BackendUnavailableError
from gpu_machine import IS_SIMULATED

if IS_SIMULATED:
    os.environ.update(DEVRT_CUDA_MOCK="2", DEVRT_ROCM_MOCK="2")


def pytest_addoption(parser):
    parser.addoption(
        "--require-device",
        metavar="PLATFORM",
        help="cuda or rocm: its absence is a failure, and only its GPUs are tested",
    )


def _required(config):
    # Absent where pytest was started elsewhere and came by.
    return config.getoption("require_device", None)


def pytest_generate_tests(metafunc):
    if "platform" in metafunc.fixturenames:
        required = _required(metafunc.config)
        metafunc.parametrize("platform", [required] if required else ["cuda", "rocm"])


@pytest.fixture
def device(platform, pytestconfig, recwarn):
    """Return the first GPU of devrt's own client."""
    from devrt.runtime import default_runtime

    try:
        client = default_runtime().get_backend(f"{platform}@devrt-{platform}")
    except BackendUnavailableError as error:
        if _required(pytestconfig):
            raise
        pytest.skip(f"no {platform} device: {error}")
    return client.local_devices()[0]
