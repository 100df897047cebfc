"""Memory that only programs in flight hold: what comes next waits for them, and is not refused."""

import pytest

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
def test_what_programs_in_flight_hold_is_waited_for(script):
    xla_cpu_library()
    ran = python(
        script,
        options=("-W", "ignore"),
        timeout=60,
        DEVRT_CUDA_MOCK="1",
        DEVRT_GPU_SIMULATOR="memory=67108864 delay=1000",
    )
    assert ran.stdout.split() == ["31.0", "31.0"]
