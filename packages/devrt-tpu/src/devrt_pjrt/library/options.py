"""The types of plugins' options: a value of another type ends the process inside some plugins."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from devrt.errors import InvalidArgumentError

__all__ = [
    "CLIENT_OPTIONS",
    "GPU_TOPOLOGY_OPTIONS",
    "TOPOLOGY_OPTIONS",
    "check_client",
    "check_names",
    "gpu_options",
]

Types = Mapping[str, type | tuple[type, ...]]

_NUMBER = (float, int)
_LIST = (list, tuple)

CLIENT_OPTIONS: Types = MappingProxyType(
    {
        "cpu_device_count": int,
        "asynchronous": bool,
        "platform_name": str,
        "allocator": str,
        "memory_fraction": float,
        "preallocate": bool,
        "collective_memory_size": int,
        "visible_devices": _LIST,
        "node_id": int,
        "num_nodes": int,
        "enable_mock_nccl": bool,
        "mock_gpu_topology": str,
        "partition_index": int,
        "use_tfrt_gpu_client": bool,
        "should_stage_host_to_device_transfers": bool,
        "abort_collectives_on_failure": bool,
        "max_inflight_computations": int,
        "ml_framework_name": str,
        "ml_framework_version": str,
    }
)
"""Of clients; a name means the same with every plugin that has it."""

TOPOLOGY_OPTIONS: Types = MappingProxyType(
    {
        "topology": str,
        "target_config": str,
        "chips_per_host_bounds": _LIST,
        "wrap": _LIST,
        "num_slices": int,
        "chip_config_name": str,
    }
)
"""Of topologies."""

_GPU_NAMES = {"allowed_devices": "visible_devices", "mock": "enable_mock_nccl"}


def gpu_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of `devrt.xla_client.make_gpu_client` as XLA's plugin for GPUs has them."""
    renamed = {_GPU_NAMES.get(name, name): value for name, value in options.items()}
    chosen = renamed.get("visible_devices")
    if isinstance(chosen, set | frozenset):
        renamed["visible_devices"] = sorted(chosen, key=lambda number: (str(type(number)), number))
    return renamed


GPU_TOPOLOGY_OPTIONS = ("topology", "target_config")
"""The plugin for GPUs takes these, and any other in silence."""

_HOST_PLUGIN, _HOST_VERSION = "xla_cpu_pjrt.so", (0, 81)
_MOST_DEVICES = 1024


def check_client(options: Mapping[str, Any], path: str, version: tuple[int, int]) -> None:
    """Refuse options that XLA's plugin for the host ignores or does not come back from.

    Parameters
    ----------
    options
        What the caller gave.
    path
        The plugin's file.
    version
        Its version; what later ones take is theirs to check.

    Raises
    ------
    InvalidArgumentError
        Saying which options there are, or how many devices.
    """
    if os.path.basename(path) != _HOST_PLUGIN or version > _HOST_VERSION:
        return
    check_names(options, ("cpu_device_count",), f"the PJRT plugin {path!r} of version 0.81")
    count = options.get("cpu_device_count", 1)
    if not 1 <= count <= _MOST_DEVICES:
        msg = f"option 'cpu_device_count' must be from 1 to {_MOST_DEVICES}, and is {count}."
        raise InvalidArgumentError(msg, option="cpu_device_count")


def check_names(options: Mapping[str, Any], known: Sequence[str], what: str) -> None:
    """Refuse an option that a plugin would ignore.

    Parameters
    ----------
    options
        What the caller gave.
    known
        The names that there are.
    what
        Whose options they are, for the message.
    """
    for name in options:
        if name not in known:
            msg = f"{what} has no option {name!r}; it has: {', '.join(known)}."
            raise InvalidArgumentError(msg, option=name)
