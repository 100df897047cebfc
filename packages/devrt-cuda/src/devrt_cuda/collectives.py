"""NCCL, which exchanges arrays between NVIDIA's devices."""

from __future__ import annotations

from devrt.native.collectives import CollectiveLibrary
from devrt.native.wheel_libraries import VendorLibrary

__all__ = ["NCCL"]

NCCL = CollectiveLibrary(
    prefix="nccl",
    library=VendorLibrary(
        names=("libnccl.so.2",),
        purpose="library for collectives",
        folders=("nvidia/nccl/lib",),
        variable="DEVRT_CUDA_COLLECTIVES",
        remedy="Install its wheel: pip install nvidia-nccl-cu13",
    ),
)
"""NCCL, from its wheel (extra ``nccl``, and ``xla`` too) or the system."""
