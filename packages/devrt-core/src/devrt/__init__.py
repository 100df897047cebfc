"""devrt: a device runtime for Python.

The accelerators of a machine come in as wheels. ``devrt.devices()`` shows them, ``device_put``
places arrays on them, meshes and shardings spread arrays over them. Importing devrt loads no
backend and no NumPy; each name brings in its room when it is first used.
"""

from __future__ import annotations

import importlib

from devrt import _fork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from devrt import dlpack, errors, numpy, sharding, tree_util
    from devrt._config import Config
    from devrt.arrays import (
        Array,
        MemoryUse,
        Progress,
        Shard,
        block_until_ready,
        clear_caches,
        copy_to_host_async,
        default_device,
        device_get,
        device_put,
        device_put_replicated,
        device_put_sharded,
        live_arrays,
        make_array_from_callback,
        make_array_from_process_local_data,
        make_array_from_single_device_arrays,
        memory_stats,
        track_memory,
        transfer_guard,
        transfer_guard_device_to_device,
        transfer_guard_device_to_host,
        transfer_guard_host_to_device,
        visualize_array_sharding,
    )
    from devrt.contract import Client, Device, Memory
    from devrt.doctor import Explanation, explain
    from devrt.runtime import (
        Runtime,
        backends,
        clear_backends,
        default_backend,
        default_runtime,
        device_count,
        devices,
        get_backend,
        get_device_backend,
        heap_profile,
        host_count,
        host_id,
        host_ids,
        local_device_count,
        local_devices,
        process_count,
        process_index,
        process_indices,
    )
    from devrt.sharding import (
        AxisType,
        Mesh,
        NamedSharding,
        P,
        PartitionSpec,
        Sharding,
        SingleDeviceSharding,
        make_mesh,
    )

    __version__: str
    config: Config

__all__ = [
    "Array",
    "AxisType",
    "Client",
    "Device",
    "Explanation",
    "Memory",
    "MemoryUse",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Progress",
    "Runtime",
    "Shard",
    "Sharding",
    "SingleDeviceSharding",
    "__version__",
    "backends",
    "block_until_ready",
    "clear_backends",
    "clear_caches",
    "config",
    "copy_to_host_async",
    "default_backend",
    "default_device",
    "default_runtime",
    "device_count",
    "device_get",
    "device_put",
    "device_put_replicated",
    "device_put_sharded",
    "devices",
    "dlpack",
    "errors",
    "explain",
    "get_backend",
    "get_device_backend",
    "heap_profile",
    "host_count",
    "host_id",
    "host_ids",
    "live_arrays",
    "local_device_count",
    "local_devices",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_mesh",
    "memory_stats",
    "numpy",
    "process_count",
    "process_index",
    "process_indices",
    "sharding",
    "track_memory",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "tree_util",
    "visualize_array_sharding",
]

_MODULES = {"dlpack", "errors", "numpy", "sharding", "tree_util"}
_FROM_ARRAYS = {
    *("Array", "Shard", "block_until_ready", "clear_caches", "default_device", "device_get"),
    *("copy_to_host_async", "device_put", "device_put_replicated", "device_put_sharded"),
    *("live_arrays", "make_array_from_callback", "make_array_from_process_local_data"),
    *("make_array_from_single_device_arrays", "MemoryUse", "Progress", "memory_stats"),
    *("track_memory", "transfer_guard", "transfer_guard_device_to_device"),
    *("transfer_guard_device_to_host", "transfer_guard_host_to_device"),
    "visualize_array_sharding",
}
_NOT_YET = {
    *("debug", "distributed", "eval_shape", "grad", "jit", "lax", "pmap", "random", "shard_map"),
    *("ShapeDtypeStruct", "smap", "tree", "vmap", "with_sharding_constraint"),
}
_FROM_CONTRACT = {"Client", "Device", "Memory"}
_FROM_DOCTOR = {"Explanation", "explain"}
_FROM_SHARDING = {
    *(
        "AxisType",
        "Mesh",
        "NamedSharding",
        "P",
        "PartitionSpec",
        "Sharding",
        "SingleDeviceSharding",
    ),
    "make_mesh",
}

_fork.refuse_lost_imports()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(_module("_absent").absent("devrt", name, _NOT_YET))
    if name == "config":  # not kept: it is the default runtime's, which can be replaced
        return _module("runtime").default_runtime().config
    value = _module(name) if name in _MODULES else _exported(name)
    globals()[name] = value
    return value


def _exported(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("devrt-core")
    rooms = (
        ("arrays", _FROM_ARRAYS),
        ("contract", _FROM_CONTRACT),
        ("doctor", _FROM_DOCTOR),
        ("sharding", _FROM_SHARDING),
    )
    room = next((room for room, names in rooms if name in names), "runtime")
    return getattr(_module(room), name)


def _module(name: str) -> Any:
    return importlib.import_module(f"devrt.{name}")


def __dir__() -> list[str]:
    return __all__
