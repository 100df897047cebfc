"""The kernels that NVIDIA's devices take, and NVRTC, which compiles CUDA C++ for them."""

from __future__ import annotations

from devrt.native.kernel_compiler import KernelCompiler
from devrt.native.kernels import KernelFormats
from devrt.native.wheel_libraries import VendorLibrary

__all__ = ["FORMATS", "NVRTC"]

NVRTC = KernelCompiler(
    format="cuda",
    prefix="nvrtc",
    image="CUBIN",
    architecture="--gpu-architecture=",
    library=VendorLibrary(
        names=("libnvrtc.so.13", "libnvrtc.so.12"),
        purpose="compiler for kernels",
        folders=("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"),
        remedy="Install its wheel: pip install nvidia-cuda-nvrtc",
    ),
    headers="cuda_fp16.h",
    header_folders=("nvidia/cu13/include", "nvidia/cuda_runtime/include"),
    header_variables=("CUDA_PATH", "CUDA_HOME"),
    system_header_folders=("/usr/local/cuda/include",),
)
"""The compiler of CUDA C++, from its wheel (extra ``nvrtc``) or the system."""

FORMATS = KernelFormats(images=("ptx", "cubin"), compiler=NVRTC)
"""The driver itself compiles PTX for its device."""
