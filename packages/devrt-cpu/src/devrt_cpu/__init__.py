"""devrt's CPU backend: virtual devices on the host's memory.

The native module is loaded when a client is first made, never by importing this package.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devrt.records import MemoryKind
    from devrt_cpu._ext import CpuClient

__all__ = ["__version__", "make_cpu_client"]

__version__ = "0.1.0"


def make_cpu_client(
    asynchronous: bool = True,
    num_devices: int = 1,
    node_id: int = 0,
    num_nodes: int = 1,
    memory_kinds: Sequence[MemoryKind] = (),
    recycled_bytes: int | None = None,
    memory_limit_bytes: int | None = None,
    traceback_in_buffers: str = "sampled",
) -> CpuClient:
    """Make a client for the host's processors and memory.

    Parameters
    ----------
    asynchronous
        Whether large copies may still run when a call returns; each buffer's ready event tells.
    num_devices
        Number of virtual devices of this process.
    node_id
        Index of this process among those of the platform.
    num_nodes
        Number of processes of the platform; each has ``num_devices`` devices.
    memory_kinds
        Memory kinds to give to every device beside the built-in ones; each brings an allocator.
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

    Returns
    -------
    CpuClient
        A client that is independent of every other one.

    Raises
    ------
    InvalidArgumentError
        If a number is out of range, or a memory kind is unknown, brings no allocator, or brings
        one that returns something else than a ``devrt_host_allocator`` capsule.
    InvalidTypeError
        If a number is no int.

    Notes
    -----
    A zero-copy buffer (``host_buffer_semantics`` 2 or 3) keeps its source alive through native
    code, where the garbage collector does not look. A source that in turn refers to the buffer
    makes a cycle that is never collected: break it with ``buffer.delete()``.
    """
    from devrt_cpu import _contract, _ext

    _contract.register()
    return _ext.make_cpu_client(
        asynchronous=asynchronous,
        num_devices=_small_int("num_devices", num_devices),
        node_id=_small_int("node_id", node_id),
        num_nodes=_small_int("num_nodes", num_nodes),
        memory_kinds=tuple(memory_kinds),
        recycled_bytes=recycled_bytes,
        memory_limit_bytes=memory_limit_bytes,
        traceback_in_buffers=traceback_in_buffers,
    )


def _small_int(name: str, value: int) -> int:
    """Return what the native module can take as an ``int``, or say what is wrong with it."""
    from devrt.errors import InvalidArgumentError, InvalidTypeError

    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidTypeError(
            f"{name} must be an int, not of type {type(value).__name__}.",
            operation="make_cpu_client",
        ) from None
    if not -(2**31) <= number < 2**31:
        raise InvalidArgumentError(
            f"{name} must fit 32 bits, and is {number}.", operation="make_cpu_client"
        )
    return number
