"""The driver's own functions, which a GPU's figures are held against."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["Driver", "stand_in_image"]

_DEFAULT = "libcuda.so.1"
_NON_BLOCKING = 1
_RELEASE_THRESHOLD = 4
_PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry touch(.param .u64 out) { ret; }
"""


def stand_in_image() -> bytes:
    """Return the kernels for simulated devices, which tests name by a variable; or nothing."""
    given = os.environ.get("DEVRT_BENCH_KERNELS")
    return Path(given).read_bytes() if given else b""


class Driver:
    """A stream of the first device, and what copies, allocates and launches on it.

    ``DEVRT_BENCH_CUDA_DRIVER`` names another library, which tests use.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(os.environ.get("DEVRT_BENCH_CUDA_DRIVER", _DEFAULT))
        context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreateWithPriority", ctypes.byref(self.stream), _NON_BLOCKING, 0)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of the driver; raises `RuntimeError` where it fails."""
        code = getattr(self._library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name} gave {code}")

    def pinned(self, nbytes: int) -> ctypes.c_void_p:
        """Return page-locked host memory."""
        return self._made("cuMemHostAlloc", nbytes, 0)

    def device(self, nbytes: int) -> ctypes.c_void_p:
        """Return memory of the device."""
        return self._made("cuMemAlloc_v2", nbytes)

    def put(self, nbytes: int) -> Callable[[], None]:
        """Return what copies page-locked memory to the device and waits."""
        return self._copying(
            "cuMemcpyHtoDAsync_v2", self.device(nbytes), self.pinned(nbytes), nbytes
        )

    def fetch(self, nbytes: int) -> Callable[[], None]:
        """Return what copies device memory to page-locked memory and waits."""
        return self._copying(
            "cuMemcpyDtoHAsync_v2", self.pinned(nbytes), self.device(nbytes), nbytes
        )

    def allocate(self, nbytes: int) -> Callable[[], None]:
        """Return what takes memory of the device's pool, which keeps it, and gives it back."""
        take, give = self._library.cuMemAllocFromPoolAsync, self._library.cuMemFreeAsync
        pool, made, size = self._pool(), ctypes.c_void_p(), ctypes.c_size_t(nbytes)
        into, stream = ctypes.byref(made), self.stream

        def allocated() -> None:
            if take(into, size, pool, stream) or give(made, stream):
                raise RuntimeError("the driver failed")

        return allocated

    def launch(self) -> Callable[[], None]:
        """Return what launches an empty kernel on memory that is there."""
        launch, kernel = self._library.cuLaunchKernel, self._kernel()
        # Pointers keep what they point to, an address in an array of addresses would not.
        arguments = (ctypes.POINTER(ctypes.c_void_p) * 1)(ctypes.pointer(self.device(32)))
        ones, stream = (1,) * 6, self.stream

        def launched() -> None:
            if launch(kernel, *ones, 0, stream, arguments, None):
                raise RuntimeError("the driver failed")

        return launched

    def _pool(self) -> ctypes.c_void_p:
        pool, keeps_all = ctypes.c_void_p(), ctypes.c_uint64(2**64 - 1)
        self.call("cuDeviceGetDefaultMemPool", ctypes.byref(pool), 0)
        self.call("cuMemPoolSetAttribute", pool, _RELEASE_THRESHOLD, ctypes.byref(keeps_all))
        return pool

    def _kernel(self) -> ctypes.c_void_p:
        module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        image = stand_in_image() or _PTX
        self.call("cuModuleLoadDataEx", ctypes.byref(module), image, 0, None, None)
        self.call("cuModuleGetFunction", ctypes.byref(kernel), module, b"touch")
        return kernel

    def _made(self, name: str, nbytes: int, *flags: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), ctypes.c_size_t(nbytes), *flags)
        return made

    def _copying(
        self, name: str, into: ctypes.c_void_p, source: ctypes.c_void_p, nbytes: int
    ) -> Callable[[], None]:
        size = ctypes.c_size_t(nbytes)

        def copy() -> None:
            self.call(name, into, source, size, self.stream)
            self.call("cuStreamSynchronize", self.stream)

        return copy
