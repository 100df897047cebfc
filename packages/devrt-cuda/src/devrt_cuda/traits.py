"""What the loader of PJRT libraries must know of those for NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.compiling.gpu_target import GPU_TARGET_OPTIONS, renamed_gpu_options
from devrt.records import PluginTraits

if TYPE_CHECKING:
    from devrt.errors import DevrtError

__all__ = ["CUDA"]


def _topology(name: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    from devrt_cuda._topology import expand

    return "", expand(name, options)


def _client_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    from devrt_cuda import _versions

    _versions.check()
    return renamed_gpu_options(options)


def _flags() -> Mapping[str, str]:
    from devrt_cuda._tools import compiler_flags

    return compiler_flags()


def _explain(error: DevrtError) -> DevrtError:
    from devrt_cuda._tools import explain

    return explain(error)


CUDA = PluginTraits(
    patterns=("*cuda*", "*gpu*"),
    extensions=(0,),  # custom calls of GPUs
    platforms=("cuda",),
    trial_options={"preallocate": False},
    client_options={"enable_mock_nccl": bool, "mock_gpu_topology": str},
    topology_options=GPU_TARGET_OPTIONS,
    adapt_options=_client_options,
    adapt_topology=_topology,
    compiler_flags=_flags,
    explain=_explain,
    dlpack_device=2,
    dlpack_host_types=(3, 13),  # page-locked, managed
)
"""By its name, its file, or what it offers."""
