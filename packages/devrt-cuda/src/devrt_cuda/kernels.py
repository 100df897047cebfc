"""The kernels that NVIDIA's devices take, and NVRTC, which compiles CUDA C++ for them."""

from __future__ import annotations

from devrt.native.kernel_compiler import KernelCompiler
from devrt.native.kernels import KernelFormats

__all__ = ["FORMATS", "NVRTC"]

NVRTC = KernelCompiler(
    format="cuda",
    prefix="nvrtc",
    image="CUBIN",
    architecture="--gpu-architecture=",
    libraries=("libnvrtc.so.13", "libnvrtc.so.12"),
    folders=("nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"),
    remedy="Install its wheel: pip install nvidia-cuda-nvrtc",
)
"""The compiler of CUDA C++, from its wheel (extra ``nvrtc``) or the system."""

FORMATS = KernelFormats(images=("ptx", "cubin"), compiler=NVRTC)
"""The driver itself compiles PTX for its device."""
