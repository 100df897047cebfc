"""Arrays, and how values get on devices and back."""

from devrt.arrays._array import Array
from devrt.arrays._construct import (
    device_put_replicated,
    device_put_sharded,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from devrt.arrays._live import clear_caches, live_arrays
from devrt.arrays._placement import (
    block_until_ready,
    copy_to_host_async,
    default_device,
    device_get,
    device_put,
)
from devrt.arrays._reshard import TransferCost, transfer_cost
from devrt.arrays._shard import Shard

__all__ = [
    "Array",
    "Shard",
    "TransferCost",
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
    "transfer_cost",
]
