"""How devrt's ROCm client compiles."""

from __future__ import annotations

from devrt.native.gpu_engine import GpuEngine
from devrt_rocm._platform import PLATFORM

__all__ = ["ENGINE"]

ENGINE = GpuEngine(PLATFORM)
