"""Work on simulated devices beside a library that makes other contexts current between calls."""

import ctypes

import numpy as np
import pytest

import devrt
from gpu_library import Driver

COUNTS = {"small": 1 << 10, "large": 1 << 20}  # float32: of the arena, and of the driver's pool


@pytest.fixture
def driver(devices):
    found = Driver()
    found.reports()
    yield found
    # A refused call is made again in its context; the refusal is all that may be reported.
    assert [line for line in found.reports() if not line.startswith("wrong context")] == []
    found("cuCtxSetCurrent", None)


def current(driver):
    context = ctypes.c_void_p()
    driver("cuCtxGetCurrent", ctypes.byref(context))
    return context.value


@pytest.fixture(params=["of the other device", "none"])
def switch(driver, request):
    """Return what makes the library's context current."""
    context = ctypes.c_void_p()
    if request.param != "none":
        driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(1))

    def make_current():
        driver("cuCtxSetCurrent", context)
        return context.value

    yield make_current
    if context:
        driver("cuDevicePrimaryCtxRelease_v2", ctypes.c_int(1))


def put(values, device, kind="device"):
    sharding = devrt.SingleDeviceSharding(device, memory_kind=kind)
    return devrt.device_put(values, sharding).block_until_ready()


@pytest.mark.parametrize("count", COUNTS)
def test_each_call_goes_to_its_own_device(driver, devices, switch, count):
    values = np.arange(COUNTS[count], dtype=np.float32)
    steps = {
        "put": lambda _: put(values, devices[0]),
        "copy": lambda x: x.copy().block_until_ready(),
        "pin": lambda x: put(x, devices[0], "pinned_host"),
        "unpin": lambda x: put(x, devices[0]),
        "move": lambda x: put(x, devices[1]),
        "back": lambda x: put(x, devices[0]),
    }
    x = None
    for name, step in steps.items():
        put(values, devices[0])  # the thread has this device's context, as far as devrt knows
        foreign = switch()
        before, x = x, step(x)
        if before is not None:
            before.delete()
        assert not foreign or current(driver) == foreign, name
    switch()
    np.testing.assert_array_equal(np.asarray(x), values)


def test_a_view_of_a_ready_array_takes_no_call(driver, devices):
    x = put(np.ones(COUNTS["large"], np.float32), devices[0])
    counts = []
    for _ in range(5):  # this thread also releases what earlier tests left
        before = driver.calls_here()
        assert x.__cuda_array_interface__["data"][0] == x.unsafe_buffer_pointer()
        assert x.__dlpack_device__() == (2, 0)
        counts.append(driver.calls_here() - before)
    assert min(counts) == 0
