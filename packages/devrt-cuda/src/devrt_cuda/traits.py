"""What the loader of PJRT libraries must know of those for NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.records import PluginTraits

if TYPE_CHECKING:
    from devrt.errors import DevrtError

__all__ = ["CUDA", "adapt_options"]

_NAMES = {"allowed_devices": "visible_devices", "mock": "enable_mock_nccl"}


def adapt_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options of `devrt.xla_client.make_gpu_client` under the names that the library has."""
    renamed = {_NAMES.get(name, name): value for name, value in options.items()}
    chosen = renamed.get("visible_devices")
    if isinstance(chosen, set | frozenset):
        renamed["visible_devices"] = sorted(chosen, key=lambda number: (str(type(number)), number))
    return renamed


def _topology(name: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    from devrt_cuda._topology import expand

    return "", expand(name, options)


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
    topology_options={"topology": str, "target_config": str},
    adapt_options=adapt_options,
    adapt_topology=_topology,
    compiler_flags=_flags,
    explain=_explain,
    dlpack_device=2,
)
"""By its name, its file, or what it offers."""
