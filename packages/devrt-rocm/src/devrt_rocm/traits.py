"""What the loader of PJRT libraries must know of those for AMD's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devrt.records import PluginTraits

__all__ = ["ROCM", "adapt_options"]

_NAMES = {"allowed_devices": "visible_devices", "mock": "enable_mock_nccl"}


def adapt_options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return options of `devrt.xla_client.make_gpu_client` under the names that the library has."""
    renamed = {_NAMES.get(name, name): value for name, value in options.items()}
    chosen = renamed.get("visible_devices")
    if isinstance(chosen, set | frozenset):
        renamed["visible_devices"] = sorted(chosen, key=lambda number: (str(type(number)), number))
    return renamed


def _topology(name: str, options: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    from devrt.compiling.gpu_target import check_gpu_target

    check_gpu_target(options)
    return name, options


ROCM = PluginTraits(
    patterns=("*rocm*",),
    platforms=("rocm",),
    trial_options={"preallocate": False},
    client_options={"enable_mock_nccl": bool, "mock_gpu_topology": str},
    topology_options={"topology": str, "target_config": str},
    adapt_options=adapt_options,
    adapt_topology=_topology,
    dlpack_device=10,
)
"""By its name or its file."""
