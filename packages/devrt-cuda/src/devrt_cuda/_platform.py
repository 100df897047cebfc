"""What devrt's client for GPUs must know of this package."""

from __future__ import annotations

from devrt.native.gpu import GpuPlatform

__all__ = ["PLATFORM"]

PLATFORM = GpuPlatform(
    name="cuda",
    module="devrt_cuda._ext",
    prefix="Cuda",
    visible_variable="JAX_CUDA_VISIBLE_DEVICES",
    hiding_variables=("CUDA_VISIBLE_DEVICES",),
    libraries=("libcuda.so.1",),
    folders=("usr/lib/wsl/lib",),  # where Windows puts the driver library of its Linux guests
    compilers=("devrt-cuda[xla]",),
    wheels=(("jax-cuda13-pjrt", "jax_plugins/xla_cuda13/xla_cuda_plugin.so"),),
    engine="devrt_cuda._engine:ENGINE",
    kernels="devrt_cuda.kernels:FORMATS",
    collectives="devrt_cuda.collectives:NCCL",
)
"""The platform ``cuda``."""
