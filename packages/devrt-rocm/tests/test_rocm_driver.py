"""The table of HIP's functions, filled from a runtime that is installed."""

import ctypes

import pytest

from devrt import hardware
from support import python

LIBRARY = "libamdhip64.so.5"  # Debian's
MAKE = """
import devrt
from devrt.records import ClientContext
from devrt_rocm._platform import PLATFORM

try:
    client = PLATFORM.make_client(ClientContext(options={}))
except devrt.errors.DevrtError as error:
    print(error)
else:
    print(client.platform_version)
"""


def test_debian_s_runtime_has_every_function_but_two_that_are_reported():
    found = hardware.find_shared_library(LIBRARY)
    if found is None:
        pytest.skip(f"{LIBRARY} is not installed (Debian's libamdhip64-5)")
    assert not hasattr(ctypes.CDLL(str(found)), "hipLaunchHostFunc")
    # In a child: the simulator stands in for the driver in this process.
    shown = python(MAKE, options=("-W", "ignore")).stdout
    assert LIBRARY in shown
    assert "without hipLaunchHostFunc, hipGetDevicePropertiesR0600)" in shown
    assert "lacks" not in shown
