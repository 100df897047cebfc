"""What the loader of PJRT libraries must know of those for AMD's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devrt.compiling.gpu_target import (
    GPU_TARGET_OPTIONS,
    check_gpu_target,
    renamed_gpu_options,
)
from devrt.records import PluginTraits

__all__ = ["ROCM"]


def _topology(name: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    check_gpu_target(options)
    return name, options


ROCM = PluginTraits(
    patterns=("*rocm*",),
    platforms=("rocm",),
    trial_options={"preallocate": False},
    client_options={"enable_mock_nccl": bool, "mock_gpu_topology": str},
    topology_options=GPU_TARGET_OPTIONS,
    adapt_options=renamed_gpu_options,
    adapt_topology=_topology,
    dlpack_device=10,
    dlpack_host_types=(11,),  # page-locked
)
"""By its name or its file."""
