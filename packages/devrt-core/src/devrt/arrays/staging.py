"""Copies between clients: through the host, in page-locked memory where a side has some."""

from __future__ import annotations

from collections.abc import Sequence

from devrt.contract import Assembly, Buffer, Client, Device, HostBufferSemantics, Memory
from devrt.contract.results import checked_array
from devrt.contract.transfers import assemble_on_host
from devrt.errors import OutOfMemoryError, UnimplementedError

__all__ = ["Target", "assemble_across", "client_of", "copy_across", "pinned_memory"]

Target = Device | Memory

_KEPT = int(HostBufferSemantics.IMMUTABLE_UNTIL_TRANSFER_COMPLETES)
_PINNED = "pinned_host"
# Page-locked memory is scarce, and not every runtime copies to it; without, copies are slower.
_NO_STAGE = (OutOfMemoryError, UnimplementedError)


def client_of(target: Target) -> Client:
    """Return the client that a device or memory belongs to."""
    return (
        target.client if isinstance(target, Device) else target.addressable_by_devices()[0].client
    )


def copy_across(sources: Sequence[Buffer], targets: Sequence[Target]) -> list[Buffer]:
    """Copy each buffer to the target at its index, which belongs to another client.

    Waits for the sources, not for the copies. All of them start towards the host before
    the first is waited for.
    """
    staged = [_towards_host(source) for source in sources]
    return [_from_host(buffer, target) for buffer, target in zip(staged, targets, strict=True)]


def assemble_across(
    sources: Sequence[Buffer], assembly: Assembly, targets: Sequence[Target]
) -> list[Buffer]:
    """Make blocks for one client's targets out of buffers of others, block by block on the host."""
    staged = [_towards_host(source) for source in sources]
    return assemble_on_host(staged, assembly, targets, _from_host)


def _towards_host(source: Buffer) -> Buffer:
    """Start a copy of a buffer to memory that its device writes fast and the host sees."""
    if source.memory.is_host_visible:
        return source
    pinned = pinned_memory(source.device)
    if pinned is not None:
        try:
            return source.copy_to_memory(pinned)
        except _NO_STAGE:
            pass
    source.copy_to_host_async()
    return source


def _from_host(value: object, target: Target) -> Buffer:
    """Start the transfer of a buffer's or array's host value to a target."""
    host = checked_array(value) if isinstance(value, Buffer) else value
    client = client_of(target)
    memory = target.default_memory() if isinstance(target, Device) else target
    pinned = None if memory.is_host_visible else pinned_memory(memory.addressable_by_devices()[0])
    if pinned is not None:
        try:
            return client.buffer_from_pyval(host, pinned, False, _KEPT).copy_to_memory(memory)
        except _NO_STAGE:
            pass
    return client.buffer_from_pyval(host, target, False, _KEPT)


def pinned_memory(device: Device) -> Memory | None:
    """Return the device's page-locked memory if it has some that the host sees in place."""
    for memory in device.addressable_memories():
        if memory.kind == _PINNED and memory.is_host_visible:
            return memory
    return None
