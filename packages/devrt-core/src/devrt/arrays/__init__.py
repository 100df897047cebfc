"""Arrays, and how values get on devices and back."""

from devrt.arrays.array import Array
from devrt.arrays.batched import (
    ArrayCopySemantics,
    array_result_handler,
    batched_block_until_ready,
    batched_copy_array_to_devices_with_sharding,
    batched_device_put,
    reorder_shards,
)
from devrt.arrays.construct import (
    device_put_replicated,
    device_put_sharded,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from devrt.arrays.cost import TransferCost, transfer_cost
from devrt.arrays.guards import (
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from devrt.arrays.live import clear_caches, live_arrays
from devrt.arrays.memory import MemoryUse, memory_stats, track_memory
from devrt.arrays.placement import (
    block_until_ready,
    copy_to_host_async,
    default_device,
    device_get,
    device_put,
)
from devrt.arrays.progress import Progress
from devrt.arrays.shard import Shard
from devrt.arrays.visualize import visualize_array_sharding

__all__ = [
    "Array",
    "ArrayCopySemantics",
    "MemoryUse",
    "Progress",
    "Shard",
    "TransferCost",
    "array_result_handler",
    "batched_block_until_ready",
    "batched_copy_array_to_devices_with_sharding",
    "batched_device_put",
    "block_until_ready",
    "clear_caches",
    "copy_to_host_async",
    "default_device",
    "device_get",
    "device_put",
    "device_put_replicated",
    "device_put_sharded",
    "live_arrays",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "memory_stats",
    "reorder_shards",
    "track_memory",
    "transfer_cost",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "visualize_array_sharding",
]
