"""The names of ``jaxlib.xla_client``, for programs that are written against them.

``from devrt import xla_client`` takes the place of ``from jaxlib import xla_client``. Clients made
here belong to the caller, not to the default runtime: each call makes another one.
"""

from __future__ import annotations

from typing import Any

from devrt._device_assignment import DeviceAssignment
from devrt.arrays import Array as ArrayImpl
from devrt.arrays import (
    ArrayCopySemantics,
    array_result_handler,
    batched_block_until_ready,
    batched_copy_array_to_devices_with_sharding,
    batched_device_put,
    reorder_shards,
)
from devrt.contract import Client, Device, HostBufferSemantics, LoadedExecutable, Memory
from devrt.runtime import default_runtime
from devrt.sharding import DeviceList, check_and_canonicalize_memory_kind
from devrt.topology import DeviceTopology, get_topology_for_devices

__all__ = [
    "ArrayCopySemantics",
    "ArrayImpl",
    "Client",
    "Device",
    "DeviceAssignment",
    "DeviceList",
    "DeviceTopology",
    "HostBufferSemantics",
    "LoadedExecutable",
    "Memory",
    "array_result_handler",
    "batched_block_until_ready",
    "batched_copy_array_to_devices_with_sharding",
    "batched_device_put",
    "check_and_canonicalize_memory_kind",
    "get_topology_for_devices",
    "make_cpu_client",
    "make_gpu_client",
    "reorder_shards",
]


def make_cpu_client(
    asynchronous: bool = True,
    distributed_client: Any | None = None,
    node_id: int = 0,
    num_nodes: int = 1,
    collectives: Any | None = None,
    num_devices: int | None = None,
    get_local_topology_timeout_minutes: int | None = None,
    get_global_topology_timeout_minutes: int | None = None,
    transfer_server_factory: Any | None = None,
) -> Client:
    """Make a client for the host's own devices.

    Parameters
    ----------
    asynchronous
        Whether transfers may go on after the call that starts them.
    num_devices
        Number of virtual devices; the option ``num_cpu_devices`` when omitted.
    distributed_client, node_id, num_nodes, collectives, get_local_topology_timeout_minutes, \
get_global_topology_timeout_minutes, transfer_server_factory
        For several processes, which this release does not have: anything but the default raises
        `UnimplementedError`.

    Returns
    -------
    Client
        A client of the caller's own; ``close()`` gives its memory back.
    """
    distributed = {
        "distributed_client": distributed_client,
        "node_id": node_id or None,
        "num_nodes": None if num_nodes == 1 else num_nodes,
        "collectives": collectives,
        "get_local_topology_timeout_minutes": get_local_topology_timeout_minutes,
        "get_global_topology_timeout_minutes": get_global_topology_timeout_minutes,
        "transfer_server_factory": transfer_server_factory,
    }
    _refuse_distributed("make_cpu_client", distributed)
    options: dict[str, Any] = {"asynchronous": asynchronous}
    if num_devices is not None:
        options["num_cpu_devices"] = num_devices
    return default_runtime().make_client("cpu", options)


def make_gpu_client(
    distributed_client: Any | None = None,
    node_id: int = 0,
    num_nodes: int = 1,
    platform_name: str | None = None,
    allowed_devices: set[int] | None = None,
    mock: bool | None = None,
    mock_gpu_topology: str | None = None,
) -> Client:
    """Make a client for GPUs.

    Parameters
    ----------
    platform_name
        The GPU platform; the one that the alias ``gpu`` stands for when omitted.
    allowed_devices
        Hardware numbers of the GPUs to use; all when omitted.
    mock, mock_gpu_topology
        Use a simulated client, of this topology.
    distributed_client, node_id, num_nodes
        For several processes, which this release does not have.

    Raises
    ------
    SelectionError
        If the platform cannot be had on this machine, with every cause.
    """
    distributed = {
        "distributed_client": distributed_client,
        "node_id": node_id or None,
        "num_nodes": None if num_nodes == 1 else num_nodes,
    }
    _refuse_distributed("make_gpu_client", distributed)
    options = {
        "allowed_devices": allowed_devices,
        "mock": mock,
        "mock_gpu_topology": mock_gpu_topology,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return default_runtime().make_client(platform_name or "gpu", given)


def _refuse_distributed(function: str, given: dict[str, Any]) -> None:
    from devrt.errors import UnimplementedError

    names = [name for name, value in given.items() if value is not None]
    if names:
        msg = (
            f"{function}: {', '.join(names)} need the distributed runtime, which this release "
            "of devrt does not have yet. Leave them out for a client of one process."
        )
        raise UnimplementedError(msg, operation=function, arguments=tuple(names))
