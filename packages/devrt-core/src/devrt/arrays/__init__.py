"""Arrays, and how values get on devices and back."""

from devrt.arrays._array import Array
from devrt.arrays._live import clear_caches, live_arrays
from devrt.arrays._placement import block_until_ready, default_device, device_get, device_put
from devrt.arrays._shard import Shard

__all__ = [
    "Array",
    "Shard",
    "block_until_ready",
    "clear_caches",
    "default_device",
    "device_get",
    "device_put",
    "live_arrays",
]
