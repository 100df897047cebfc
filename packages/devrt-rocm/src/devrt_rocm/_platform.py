"""What devrt's client for GPUs must know of this package."""

from __future__ import annotations

from devrt.native.gpu import GpuPlatform

__all__ = ["PLATFORM"]

PLATFORM = GpuPlatform(
    name="rocm",
    module="devrt_rocm._ext",
    prefix="Rocm",
    visible_variable="JAX_ROCM_VISIBLE_DEVICES",
    hiding_variables=(
        "ROCR_VISIBLE_DEVICES",
        "HIP_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
    ),
    libraries=("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"),
    folders=("opt/rocm/lib", "opt/rocm-*/lib"),
    compilers=("jax-rocm7-pjrt",),
    wheels=(("jax-rocm7-pjrt", "jax_plugins/xla_rocm7/xla_rocm_plugin.so"),),
    shares_pool=False,
    engine="devrt_rocm._engine:ENGINE",
    kernels="devrt_rocm.kernels:FORMATS",
    collectives="devrt_rocm.collectives:RCCL",
)
"""The platform ``rocm``."""
