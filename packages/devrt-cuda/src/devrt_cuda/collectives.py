"""NCCL, which exchanges arrays between NVIDIA's devices."""

from __future__ import annotations

from devrt.native.collectives import CollectiveLibrary

__all__ = ["NCCL"]

NCCL = CollectiveLibrary(
    prefix="nccl",
    libraries=("libnccl.so.2",),
    folders=("nvidia/nccl/lib",),
    variable="DEVRT_CUDA_COLLECTIVES",
    remedy="Install its wheel: pip install nvidia-nccl-cu13",
)
"""NCCL, from its wheel (extra ``nccl``, and ``xla`` too) or the system."""
