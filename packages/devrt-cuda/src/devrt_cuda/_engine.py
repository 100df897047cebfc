"""How devrt's CUDA client compiles."""

from __future__ import annotations

from devrt.native.gpu_engine import GpuEngine
from devrt_cuda._platform import PLATFORM
from devrt_cuda._tools import compiler_flags
from devrt_cuda._versions import check

__all__ = ["ENGINE"]

ENGINE = GpuEngine(PLATFORM, compiler_flags, check)
