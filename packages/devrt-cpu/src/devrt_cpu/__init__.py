"""devrt's CPU backend: virtual devices on the host's memory.

The native module is loaded when a client is first made, never by importing this package.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devrt.contract import DistributedRuntimeClient
    from devrt.records import MemoryKind
    from devrt_cpu._ext import CpuClient
    from devrt_cpu._library import Library

__all__ = ["__version__", "make_cpu_client"]

__version__ = "0.1.0"

_T = TypeVar("_T")


def make_cpu_client(
    asynchronous: bool = True,
    num_devices: int = 1,
    node_id: int = 0,
    num_nodes: int = 1,
    memory_kinds: Sequence[MemoryKind] = (),
    recycled_bytes: int | None = None,
    memory_limit_bytes: int | None = None,
    traceback_in_buffers: str = "sampled",
    *,
    execution_timeout: float = 600.0,
    cpu_engine: str | os.PathLike[str] | None = None,
    distributed_client: DistributedRuntimeClient | None = None,
    get_local_topology_timeout_minutes: float | None = None,
    get_global_topology_timeout_minutes: float | None = None,
) -> CpuClient:
    """Make a client for the host's processors and memory.

    Parameters
    ----------
    asynchronous
        Whether large copies may still run when a call returns; each buffer's ready event tells.
        Without it every buffer is ready on return.
    num_devices
        Number of virtual devices of this process.
    node_id
        Index of this process among those of the platform.
    num_nodes
        Number of processes of the platform. With a ``distributed_client`` they tell each other
        how many devices each has; without one each is taken to have ``num_devices``.
    memory_kinds
        Memory kinds to give to every device beside the built-in ones; each brings an allocator,
        but for one called ``huge_pages``, which needs none.
    recycled_bytes
        How many bytes of freed blocks the client keeps for its next buffers, over all its devices
        and built-in memory kinds. None for 1 GiB, or a sixteenth of the machine's memory where
        that is less; 0 to give every block back at once.
    memory_limit_bytes
        How many bytes the buffers may take together, over all devices and memory kinds; memory
        that is only lent, in zero-copy buffers, does not count. None for no limit.
    traceback_in_buffers
        For which buffers to note where the program made them, for ``buffer.traceback``, heap
        profiles and out-of-memory errors: ``"off"``, ``"all"``, or ``"sampled"``: every buffer
        from 256 KiB on and about one in 32 of the smallest, which costs next to nothing.
    execution_timeout
        Seconds that a call of a program waits for a device on which as many executions are in
        flight as may be, and none of them ends; then it raises `DeadlineExceededError`.
    cpu_engine
        The compiler of its programs: the name of a wheel that brings one, or the path of a library.
        None for what the variable ``DEVRT_CPU_ENGINE`` names, or else the newest that is installed.
        Nothing is opened before a program is compiled.
    distributed_client
        The connection to the cluster's key-value store, kept as ``client.distributed_client``.
        Device ids are contiguous by node: those of node 0 come first. Devices of other processes
        are known, but not addressable.
    get_local_topology_timeout_minutes
        How long node 0 waits for every process's number of devices; 2 when None.
    get_global_topology_timeout_minutes
        How long the other processes wait for node 0's list; 5 when None.

    Returns
    -------
    CpuClient
        A client that is independent of every other one.

    Raises
    ------
    InvalidArgumentError
        If a number is out of range, or a memory kind is unknown, brings no allocator, or brings
        one that returns something else than a ``devrt_host_allocator`` capsule; if ``cpu_engine``
        is not installed, or is no file.
    InvalidTypeError
        If an argument is of another type, or ``distributed_client`` lacks a method.
    DeadlineExceededError
        If a process of the cluster did not come; ``missing_nodes`` says which.
    DistributedError
        If the key-value store fails, or the processes do not agree on ``num_nodes``.

    Notes
    -----
    A zero-copy buffer (``host_buffer_semantics`` 2 or 3) keeps its source alive through native
    code, where the garbage collector does not look. A source that in turn refers to the buffer
    makes a cycle that is never collected: break it with ``buffer.delete()``.
    """
    from devrt_cpu import _contract, _ext

    _contract.register()
    node_id, num_nodes = _small_int("node_id", node_id), _small_int("num_nodes", num_nodes)
    num_devices = _small_int("num_devices", num_devices)
    library = None if cpu_engine is None else _library_of(cpu_engine)
    exchange = None
    if distributed_client is not None:
        from devrt.native.nodes import Nodes, exchange_for

        nodes = Nodes(
            scope="cpu",
            platform="cpu",
            version=__version__,
            operation="make_cpu_client",
            node_id=node_id,
            num_nodes=num_nodes,
        )
        timeouts = {
            "get_local_topology_timeout_minutes": get_local_topology_timeout_minutes,
            "get_global_topology_timeout_minutes": get_global_topology_timeout_minutes,
        }
        exchange = exchange_for(distributed_client, nodes, timeouts)
    client = _ext.make_cpu_client(
        asynchronous=_of_type("asynchronous", asynchronous, bool),
        num_devices=num_devices,
        node_id=node_id,
        num_nodes=num_nodes,
        memory_kinds=_kinds(memory_kinds),
        recycled_bytes=_bytes("recycled_bytes", recycled_bytes),
        memory_limit_bytes=_bytes("memory_limit_bytes", memory_limit_bytes),
        traceback_in_buffers=_of_type("traceback_in_buffers", traceback_in_buffers, str),
        exchange=exchange,
        distributed_client=distributed_client,
        execution_timeout=_seconds("execution_timeout", execution_timeout),
    )
    if not asynchronous:
        from devrt_cpu import _capabilities

        _capabilities.remember_as_synchronous(client)
    if library is not None:
        from devrt_cpu import _library

        _library.remember(client, library)
    return client


def _library_of(cpu_engine: str | os.PathLike[str]) -> Library:
    from devrt_cpu import _library

    if not isinstance(cpu_engine, (str, os.PathLike)):
        _raise_type("cpu_engine", cpu_engine, "str")
    return _library.choose(os.fspath(cpu_engine))


def _kinds(memory_kinds: Sequence[MemoryKind]) -> tuple[MemoryKind, ...]:
    kinds = tuple(_of_type("memory_kinds", memory_kinds, Iterable))
    for number, kind in enumerate(kinds):
        if not (hasattr(kind, "kind") and hasattr(kind, "allocator")):
            _raise_type(f"memory_kinds[{number}]", kind, "devrt.records.MemoryKind")
    return kinds


def _of_type(name: str, value: _T, kind: type) -> _T:
    if not isinstance(value, kind):
        _raise_type(name, value, kind.__name__)
    return value


def _seconds(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        _raise_type(name, value, "float")
    return float(value)


def _raise_type(name: str, value: object, wanted: str) -> NoReturn:
    from devrt.errors import InvalidTypeError

    raise InvalidTypeError(
        f"{name} must be of type {wanted}, not {type(value).__name__}.",
        operation="make_cpu_client",
    )


def _small_int(name: str, value: int) -> int:
    from devrt_cpu._numbers import INT32_MAX, checked_int

    return checked_int(name, value, "make_cpu_client", -INT32_MAX - 1, INT32_MAX)


def _bytes(name: str, value: int | None) -> int | None:
    from devrt_cpu._numbers import INT64_MAX, checked_int

    lowest = -INT64_MAX - 1  # the native module says what it takes
    return None if value is None else checked_int(name, value, "make_cpu_client", lowest, INT64_MAX)
