"""RCCL, which exchanges arrays between AMD's devices."""

from __future__ import annotations

from devrt.native.collectives import CollectiveLibrary
from devrt.native.wheel_libraries import VendorLibrary

__all__ = ["RCCL"]

RCCL = CollectiveLibrary(
    prefix="nccl",  # its functions have NCCL's names
    library=VendorLibrary(
        names=("librccl.so.1",),
        purpose="library for collectives",
        system_folders=("opt/rocm/lib", "opt/rocm-*/lib"),
        variable="DEVRT_ROCM_COLLECTIVES",
        remedy="Install ROCm's package rccl.",
    ),
)
"""RCCL, of ROCm."""
