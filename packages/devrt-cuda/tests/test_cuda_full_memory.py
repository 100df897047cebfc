"""Memory that nobody needs any more: what comes next gets it, and is not refused."""

import pytest

from gpu_vendors import VENDORS
from support import python, xla_cpu_library

pytestmark = pytest.mark.engine

START = """
import numpy as np
import devrt

device = devrt.devices("cuda")[0]
host = np.ones(10 << 18, np.float32)  # 10 MiB of 64
v = devrt.device_put(host, device)
"""

PROGRAMS = (
    START
    + """
for _ in range(30):
    v = v + 1
print(float(v[0]), float(v[-1]))
"""
)

PUTS = (
    START
    + """
total = devrt.jit(lambda a, b: a + b)
for _ in range(30):
    v = total(v, devrt.device_put(host, device))
print(float(v[0]), float(v[-1]))
"""
)


@pytest.mark.parametrize("script", [PROGRAMS, PUTS], ids=["programs", "puts"])
@pytest.mark.parametrize(("bytes_of_device", "fraction"), [(64 << 20, "1"), (256 << 20, "0.25")])
def test_what_programs_in_flight_hold_is_waited_for(script, bytes_of_device, fraction):
    xla_cpu_library()
    ran = python(
        script,
        options=("-W", "ignore"),
        timeout=60,
        DEVRT_CUDA_MOCK="1",
        DEVRT_GPU_SIMULATOR=f"memory={bytes_of_device} delay=1000",
        XLA_CLIENT_MEM_FRACTION=fraction,
    )
    assert ran.stdout.split() == ["31.0", "31.0"]


KEPT = """
import numpy as np
import devrt
import devrt.numpy as dnp

device = devrt.devices()[0]
host = np.ones(10 << 18, np.float32)
arrays = [devrt.device_put(host, device).block_until_ready() for _ in range(5)]  # 50 MiB of 64
for each in arrays[1:]:
    each.delete()
print(float(dnp.concatenate([arrays[0]] * 3).sum()) / host.size)
"""


@pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.platform)
def test_what_the_client_keeps_is_given_back_for_programs(vendor):
    """On ROCm the plugin has memory of its own: a device has two pools."""
    platform = vendor.platform
    pytest.importorskip(f"devrt_{platform}")
    xla_cpu_library()
    ran = python(
        KEPT,
        options=("-W", "ignore"),
        timeout=60,
        DEVRT_PLATFORMS=f"{platform}@devrt-{platform}",
        DEVRT_GPU_SIMULATOR="memory=67108864",
        **{f"DEVRT_{platform.upper()}_MOCK": "1"},
    )
    assert ran.stdout.split() == ["3.0"]
