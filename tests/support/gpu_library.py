"""A library beside devrt that works on the simulated devices through the driver's own functions."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import threading
from typing import Any

import pytest

import devrt

_VOID = ctypes.c_void_p
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, _VOID)
_NON_BLOCKING = 1
_CAPSULE = b"dltensor"
_HIP = {
    "cuEventCreate": "hipEventCreateWithFlags",
    "cuLaunchKernel": "hipModuleLaunchKernel",
    "cuMemAlloc_v2": "hipMalloc",
}
"""What HIP calls functions that do not differ in the prefix alone."""


class Driver:
    """The simulated driver of a platform, as devrt loaded it. Functions have CUDA's names."""

    def __init__(self, platform: str = "cuda") -> None:
        self.platform = platform
        self.has_reported = False
        folder = os.path.dirname(str(importlib.import_module(f"devrt_{platform}._ext").__file__))
        self._library = ctypes.CDLL(os.path.join(folder, f"libdevrt_{platform}_simulator.so"))
        self._library.devrt_simulator_reports.restype = ctypes.c_char_p
        self._library.devrt_simulator_count.restype = ctypes.c_ulonglong
        self._library.devrt_simulator_calls_here.restype = ctypes.c_ulonglong

    def __call__(self, function: str, *arguments: Any) -> None:
        # Addresses and handles are wider than what ctypes takes a number for.
        wide = [_VOID(each) if type(each) is int else each for each in arguments]
        result = getattr(self._library, self._named(function))(*wide)
        assert result == 0, (function, result)

    def _named(self, function: str) -> str:
        if self.platform == "cuda" or not function.startswith("cu"):
            return function
        return _HIP.get(function, f"hip{function.removeprefix('cu').removesuffix('_v2')}")

    def use_first_device(self) -> None:
        if self.platform != "cuda":
            self("cuSetDevice", ctypes.c_int(0))
            return
        context = _VOID()
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(0))
        self("cuCtxSetCurrent", context)

    def calls(self, function: str = "") -> int:
        return int(self._library.devrt_simulator_count(self._named(function).encode()))

    def calls_here(self) -> int:
        """Return how many calls this thread has made: others release what earlier tests left."""
        return int(self._library.devrt_simulator_calls_here())

    def modules(self) -> int:
        """Return how many modules are loaded."""
        living = self._library.devrt_simulator_living
        living.restype = ctypes.c_char_p
        return int(living().split(b"modules=")[1].split()[0])

    def reports(self) -> list[str]:
        found = self._library.devrt_simulator_reports(1).decode().splitlines()
        self.has_reported = self.has_reported or bool(found)
        return found


class Stream:
    """A stream of the library on device 0; the default one by its number."""

    def __init__(self, driver: Driver, number: int | None = None) -> None:
        self.driver = driver
        self._kept: list[Any] = []
        driver.use_first_device()
        handle = _VOID(number)
        if number is None:
            driver("cuStreamCreateWithPriority", ctypes.byref(handle), _NON_BLOCKING, 0)
        self.handle = int(handle.value or 0)

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def gate(self) -> threading.Event:
        """Have what follows on the stream wait for the host."""
        opened = threading.Event()
        function = _HOST_FUNCTION(lambda _: None if opened.wait(5) else os._exit(7))
        self._kept.append(function)
        self.driver("cuLaunchHostFunc", self.handle, function, 0)
        return opened

    def copy(self, to: int, source: int, count: int) -> None:
        self.driver("cuMemcpyDtoDAsync_v2", to, source, count, self.handle)

    def fill(self, to: int, count: int) -> None:
        self.driver("cuMemsetD8Async", to, ctypes.c_ubyte(1), count, self.handle)

    def wait_for(self, other: int) -> None:
        """Have another stream wait for what this one was given."""
        event = _VOID()
        self.driver("cuEventCreate", ctypes.byref(event), 2)
        self.driver("cuEventRecord", event, self.handle)
        self.driver("cuStreamWaitEvent", other, event, 0)

    def synchronize(self) -> None:
        self.driver("cuStreamSynchronize", self.handle)


def allocate(driver: Driver, count: int) -> int:
    address = _VOID()
    driver("cuMemAlloc_v2", ctypes.byref(address), count)
    return int(address.value or 0)


class Gated:
    """An array of the library on device 0, full of 0x01010101: not ready before its gate opens.

    Its elements have four bytes. One that does not show its stream has nobody wait for it.
    """

    def __init__(
        self, driver: Driver, count: int, typestr: str = "<i4", *, shows_stream: bool = True
    ) -> None:
        self.stream = Stream(driver)
        self.count, self.address = count, allocate(driver, 4 * count)
        self.typestr, self.shows_stream = typestr, shows_stream
        self.gate = self.stream.gate()
        self.stream.fill(self.address, 4 * count)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": (self.count,),
            "typestr": self.typestr,
            "data": (self.address, False),
            "version": 3,
            "stream": self.stream.handle if self.shows_stream else None,
        }


class Tensor:
    """The consumer of a capsule: an address, until it is released."""

    def __init__(self, capsule: Any) -> None:
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = _VOID, [ctypes.py_object, ctypes.c_char_p]
        rename = ctypes.pythonapi.PyCapsule_SetName
        rename.argtypes = [ctypes.py_object, ctypes.c_char_p]
        self._managed = pointer_of(capsule, _CAPSULE)
        self._used = ctypes.c_char_p(b"used_dltensor")
        rename(capsule, self._used)
        self.address = int(_VOID.from_address(self._managed).value or 0)

    def release(self) -> None:
        # A DLTensor takes 48 bytes; the context and the deleter follow.
        deleter = ctypes.CFUNCTYPE(None, _VOID).from_address(self._managed + 56)
        deleter(self._managed)


@contextlib.contextmanager
def simulated_platform(platform="cuda", **environ):
    """Yield the two devices of a simulated platform, in a default runtime of their own.

    The former default is the default again also where no device comes: others' arrays are on it.
    """
    before = devrt.runtime.set_default_runtime(None)
    given = {f"DEVRT_{platform.upper()}_MOCK": "2", "DEVRT_PLATFORMS": f"{platform},cpu"}
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.delenv(f"DEVRT_{platform.upper()}_ENGINE", raising=False)
            for name, value in (given | environ).items():
                patch.setenv(name, str(value))
            with pytest.warns(devrt.errors.DevrtWarning, match="experimental"):
                found = devrt.devices(platform)
            yield found
    finally:
        mine = devrt.runtime.set_default_runtime(before)
        if mine is not None:
            mine.close()
