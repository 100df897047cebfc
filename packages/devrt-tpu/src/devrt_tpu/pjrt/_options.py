"""The types of plugins' options: a value of another type ends the process inside some plugins."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["CLIENT_OPTIONS", "TOPOLOGY_OPTIONS"]

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
