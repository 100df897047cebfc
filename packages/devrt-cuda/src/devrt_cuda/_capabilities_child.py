"""Runs alone, in a child process of `devrt_cuda._known_conflicts`: reads devices' capabilities.

It makes no context: the driver tells an attribute of a device without.
"""

from __future__ import annotations

import ctypes
import json
import sys

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR


def _capabilities(path: str) -> list[list[int]]:
    driver = ctypes.CDLL(path)
    if driver.cuInit(0):
        return []
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    return [
        [_attribute(driver, name, device) for name in (_MAJOR, _MINOR)]
        for device in range(count.value)
    ]


def _attribute(driver: ctypes.CDLL, name: int, device: int) -> int:
    value = ctypes.c_int()
    driver.cuDeviceGetAttribute(ctypes.byref(value), name, device)
    return value.value


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_capabilities(json.load(sys.stdin))) + "\n")
