"""Clients under ``jaxlib.xla_client``'s names, each of the caller's own; its class of arrays."""

from __future__ import annotations

import abc
import os
from collections.abc import Mapping
from typing import Any

from devrt import runtime
from devrt.arrays import Array
from devrt.contract import (
    Buffer,
    Client,
    CpuCollectives,
    DistributedRuntimeClient,
    TransferServerInterfaceFactory,
    with_transfer_server,
)
from devrt.distributed.collectives import use_collectives
from devrt.errors import (
    BackendInitializationError,
    DeadlineExceededError,
    DistributedError,
    InvalidTypeError,
    UnimplementedError,
)
from devrt.runtime import default_runtime

__all__ = [
    "ArrayImpl",
    "make_cpu_client",
    "make_gpu_client",
    "make_tfrt_tpu_c_api_device_topology",
    "make_tpu_client",
    "register_custom_call_target",
]


class ArrayImpl(abc.ABC):
    """The type of what holds data: `devrt.Array`, and every backend's buffers.

    jaxlib has one class for both. Here it is for ``isinstance`` and annotations, and names what
    both have.
    """

    @property
    @abc.abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Extents of the dimensions."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any:
        """NumPy dtype of the elements."""

    @abc.abstractmethod
    def is_ready(self) -> bool:
        """Return whether the data has arrived, without waiting."""

    @abc.abstractmethod
    def block_until_ready(self) -> ArrayImpl:
        """Wait for the data; return the same object or raise its error."""

    @abc.abstractmethod
    def is_deleted(self) -> bool:
        """Return whether the memory was given back."""

    @abc.abstractmethod
    def delete(self) -> None:
        """Give the memory back. Idempotent."""


for _class in (Array, Buffer):
    ArrayImpl.register(_class)


def make_cpu_client(
    asynchronous: bool = True,
    distributed_client: DistributedRuntimeClient | None = None,
    node_id: int = 0,
    num_nodes: int = 1,
    collectives: CpuCollectives | None = None,
    num_devices: int | None = None,
    get_local_topology_timeout_minutes: float | None = None,
    get_global_topology_timeout_minutes: float | None = None,
    transfer_server_factory: TransferServerInterfaceFactory | None = None,
) -> Client:
    """Make a client for the host's own devices.

    It is the installed backend's, also where a call registered another one for the platform.

    Parameters
    ----------
    asynchronous
        Whether transfers may go on after the call that starts them. Without it every buffer is
        ready on return.
    distributed_client
        The connection to the cluster's key-value store, over which the processes tell each other
        how many devices they have. None with ``num_nodes`` above 1: each has as many as this one.
    node_id, num_nodes
        Which of how many processes this is. Device ids are contiguous by node.
    collectives
        How its programs exchange data with other processes: what `make_gloo_tcp_collectives` or
        `make_mpi_collectives` returns. None: as the option ``cpu_collectives_implementation`` says,
        in a job that `devrt.distributed.initialize` joined; elsewhere such programs are refused.
    num_devices
        Number of virtual devices of this process; the option ``num_cpu_devices`` when omitted.
    get_local_topology_timeout_minutes, get_global_topology_timeout_minutes
        How long node 0 waits for every process's devices (2 when None), and the others for the
        list of all (5).
    transfer_server_factory
        Called with the client; `devrt.contract.transfer_server_of` returns what it makes.
        `devrt.experimental.transfer.make_transfer_server_interface_factory` makes one.

    Returns
    -------
    Client
        A client of the caller's own; ``close()`` gives its memory back.

    Raises
    ------
    DeadlineExceededError
        If a process of the cluster did not come in time; ``missing_nodes`` says which.
    DistributedError
        If the key-value store fails, or the processes do not agree on ``num_nodes``.
    InvalidArgumentError
        If a number is out of range.
    InvalidTypeError
        If a number is no int, or an object lacks a method that it must have.
    """
    options = {
        "asynchronous": asynchronous,
        "distributed_client": distributed_client,
        "node_id": node_id,
        "num_nodes": num_nodes,
        "num_cpu_devices": num_devices,
        "get_local_topology_timeout_minutes": get_local_topology_timeout_minutes,
        "get_global_topology_timeout_minutes": get_global_topology_timeout_minutes,
    }
    if collectives is not None and not callable(getattr(collectives, "make_communicator", None)):
        msg = (
            "collectives must have the method make_communicator, as what make_gloo_tcp_collectives "
            f"returns has; an object of type {type(collectives).__name__} has none."
        )
        raise InvalidTypeError(msg, operation="make_cpu_client", argument="collectives")
    client = _made("cpu", options)
    if collectives is not None:
        use_collectives(client, collectives)
    return with_transfer_server(client, transfer_server_factory)


def _made(platform: str, options: Mapping[str, Any]) -> Client:
    """Return a client; an error of the cluster is not reported as the backend's."""
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return default_runtime().make_client(platform, given, installed=True)
    except BackendInitializationError as error:
        cause = error.__cause__
        if isinstance(cause, (DeadlineExceededError, DistributedError)):
            raise cause from cause.__cause__
        raise


def make_gpu_client(
    distributed_client: Any | None = None,
    node_id: int = 0,
    num_nodes: int = 1,
    platform_name: str | None = None,
    allowed_devices: set[int] | None = None,
    mock: bool | None = None,
    mock_gpu_topology: str | None = None,
    transfer_server_factory: TransferServerInterfaceFactory | None = None,
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
    distributed_client
        The connection to the cluster's key-value store, over which the processes tell each other
        which devices they have.
    node_id, num_nodes
        Which of how many processes this is. Device ids are contiguous by node.
    transfer_server_factory
        As for `make_cpu_client`.

    Raises
    ------
    SelectionError
        If the platform cannot be had on this machine, with every cause.
    DeadlineExceededError
        If a process of the cluster did not come in time; ``missing_nodes`` says which.
    DistributedError
        If the key-value store fails, or a process has another platform, version or ``num_nodes``.
    """
    is_alone = distributed_client is None and num_nodes == 1
    options = {
        "distributed_client": distributed_client,
        "node_id": node_id if not is_alone or node_id else None,
        "num_nodes": None if is_alone else num_nodes,
        "allowed_devices": allowed_devices,
        "mock": mock,
        "mock_gpu_topology": mock_gpu_topology,
    }
    return with_transfer_server(_made(platform_name or "gpu", options), transfer_server_factory)


def register_custom_call_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, traits: int = 0
) -> None:
    """Let programs of a platform call a function by a name.

    Parameters
    ----------
    name
        The target that ``stablehlo.custom_call`` names; with ``api_version = 4 : i32``.
    fn
        A callable, or native code: an XLA FFI handler in a capsule, or by its address. A mapping
        may have it as ``execute``, as jax gives the stages of one.
    platform
        The platform; its client of the default runtime is made, if it was not.
    api_version
        1, that of XLA's foreign functions. What is written for 0 cannot be called.
    traits
        0; others say how a GPU may record the call.

    Raises
    ------
    UnimplementedError
        If the platform takes no custom calls, or what is requested is not offered.
    PluginError
        If the name is taken; one callable may replace another.
    """
    stages = set(fn) - {"execute"} if isinstance(fn, Mapping) else set()
    for is_other, what in (
        (api_version != 1, f"api_version {api_version!r}"),
        (traits != 0, f"traits {traits!r}"),
        (bool(stages), f"handlers of the stages {', '.join(sorted(map(str, stages)))}"),
    ):
        if is_other:
            msg = f"custom call {name!r} cannot be registered: {what} cannot be had. Leave it out."
            raise UnimplementedError(msg, operation="register_custom_call_target")
    function = fn.get("execute") if isinstance(fn, Mapping) else fn
    client = default_runtime().get_backend(platform)
    client.register_custom_call(name, function)


def make_tpu_client(
    library_path: str | os.PathLike[str] | None = None,
    options: Mapping[str, str | int | list[int] | float | bool] | None = None,
) -> Client:
    """Make a client of the platform in the function's name.

    Parameters
    ----------
    library_path
        Its PJRT library; the one that the installed plugin finds when omitted.
    options
        The library's own options.

    Returns
    -------
    Client
        A client of the caller's own.

    Raises
    ------
    SelectionError
        If the platform cannot be had on this machine, with every cause.
    UnimplementedError
        If a path is given and no loader of PJRT libraries is installed.
    """
    platform = "tpu"
    if library_path is None:
        return default_runtime().make_client(platform, dict(options or {}), installed=True)
    if not runtime.pjrt_plugin_loaded(platform):
        runtime.load_pjrt_plugin_dynamically(platform, library_path)
    return runtime.make_c_api_client(platform, options)


def make_tfrt_tpu_c_api_device_topology(topology_name: str | None = None, **kwargs: Any) -> Any:
    """Describe devices of the platform in the function's name; see `make_pjrt_tpu_topology`."""
    return runtime.make_pjrt_tpu_topology(topology_name or "", **kwargs)
