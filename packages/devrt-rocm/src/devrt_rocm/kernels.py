"""The kernels that AMD's devices take, and hipRTC, which compiles HIP C++ for them."""

from __future__ import annotations

from devrt.native.kernel_compiler import KernelCompiler
from devrt.native.kernels import KernelFormats
from devrt.native.wheel_libraries import VendorLibrary

__all__ = ["FORMATS", "HIPRTC"]

HIPRTC = KernelCompiler(
    format="hip",
    prefix="hiprtc",
    image="Code",
    architecture="--offload-arch=",
    library=VendorLibrary(
        # Before ROCm 5.3, and so in Debian, the runtime's own library has the compiler.
        names=("libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5"),
        purpose="compiler for kernels",
        system_folders=("opt/rocm/lib", "opt/rocm-*/lib"),
        remedy="Install ROCm's package hip-runtime-amd, or Debian's libamdhip64-5.",
    ),
    aborts=("9.0 libamdhip64.so.5",),  # that of HIP 5.2: munmap_chunk(): invalid pointer
)
"""The compiler of HIP C++, of ROCm or of the system."""

FORMATS = KernelFormats(images=("hsaco",), compiler=HIPRTC)
"""A code object is what ROCm's tools write as ``.hsaco``."""
