"""What the loader of PJRT libraries must know of those for AMD's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devrt.compiling.gpu_target import check_gpu_target, renamed_gpu_options
from devrt.records import PluginTraits

__all__ = ["ROCM"]

_NAMES = {"allowed_devices": "visible_devices", "mock": "enable_mock_nccl"}


def _topology(name: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    check_gpu_target(options)
    return name, options


ROCM = PluginTraits(
    patterns=("*rocm*",),
    platforms=("rocm",),
    trial_options={"preallocate": False},
    client_options={"enable_mock_nccl": bool, "mock_gpu_topology": str},
    topology_options={"topology": str, "target_config": str},
    adapt_options=lambda options: renamed_gpu_options(options, _NAMES),
    adapt_topology=_topology,
    dlpack_device=10,
    dlpack_host_types=(11,),  # page-locked
)
"""By its name or its file."""
