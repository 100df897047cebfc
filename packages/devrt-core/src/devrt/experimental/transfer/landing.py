"""Where pulled elements arrive: memory that becomes an array, or that the caller has."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from devrt.arrays import Array, ShapeDtypeStruct, array_result_handler, batched_device_put
from devrt.arrays.reshard import targets_of
from devrt.arrays.staging import Target, client_of, pinned_memory
from devrt.contract import Buffer, Device, HostBufferSemantics
from devrt.distributed.transfer.reading import Region
from devrt.errors import (
    DistributedError,
    InvalidArgumentError,
    InvalidTypeError,
    OutOfMemoryError,
    StatusCode,
    UnimplementedError,
)
from devrt.sharding import Sharding, single_device_sharding

__all__ = ["Incoming", "IntoHost", "incoming", "into"]

Block = tuple[tuple[int, ...], tuple[int, ...]]
_ALIGNMENT = 64  # of the memory that clients for processors take as it is


class Incoming:
    """An array that is pulled: a block of memory for each part that this process is to hold.

    Parameters
    ----------
    shape, dtype
        The array's.
    sharding
        Where it is to lie.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any], sharding: Sharding) -> None:
        self.shape, self.dtype = shape, dtype
        self._sharding = sharding
        self._plan = sharding.placement(shape)
        self._targets = targets_of(self._plan.devices, sharding.memory_kind)
        self._blocks: dict[tuple[int, ...], _HostBlock | _PinnedBlock] = {}

    def regions(self, number: int, held: Sequence[Block]) -> list[Region]:
        """Allocate the blocks, and return what is to be read of the blocks that are held."""
        shape = self._plan.shard_shape
        for offset, target in zip(self._plan.offsets, self._targets, strict=True):
            if offset not in self._blocks:
                self._blocks[offset] = _block(shape, self.dtype, target)
        return [
            region
            for offset, block in self._blocks.items()
            for region in _regions(number, held, offset, block.elements)
        ]

    def result(self) -> Array:
        """Return the array, whose memory the blocks become where the devices see them."""
        aval = ShapeDtypeStruct(self.shape, self.dtype)
        blocks = [self._blocks[offset] for offset in self._plan.offsets]
        if not any(isinstance(block, _PinnedBlock) for block in blocks):
            is_shared = len(blocks) > len(self._blocks)
            semantics = HostBufferSemantics
            how = semantics.IMMUTABLE_ZERO_COPY if is_shared else semantics.MUTABLE_ZERO_COPY
            hosts = [block.elements for block in blocks]
            devices = self._plan.devices
            return batched_device_put(aval, self._sharding, hosts, devices, True, False, how)
        pairs = zip(blocks, self._targets, strict=True)
        buffers = [block.put(target) for block, target in pairs]
        return array_result_handler(aval, self._sharding, True)(buffers)


class IntoHost:
    """A NumPy array that is filled.

    Parameters
    ----------
    array
        Writable; any strides.
    """

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        if not array.flags.writeable:
            msg = "pull_into cannot fill a NumPy array that is read-only. Pass one of your own."
            raise InvalidArgumentError(msg, operation="pull_into")
        self.shape, self.dtype = array.shape, array.dtype
        self._array = array

    def regions(self, number: int, held: Sequence[Block]) -> list[Region]:
        """Return what is to be read of the blocks that are held."""
        return _regions(number, held, (0,) * self._array.ndim, self._array)

    def result(self) -> np.ndarray[Any, Any]:
        """Return the array."""
        return self._array


class _IntoArray(Incoming):
    """An array of devrt whose place a pulled one takes."""

    def __init__(self, array: Array) -> None:
        super().__init__(tuple(array.shape), array.dtype, array.sharding)
        self._former = array

    def regions(self, number: int, held: Sequence[Block]) -> list[Region]:
        self._former.delete()  # so that its memory is free for the blocks
        return super().regions(number, held)


def incoming(leaf: Any, device: Device) -> Incoming:
    """Return what takes in the array that a leaf describes.

    Parameters
    ----------
    leaf
        What has a shape and a dtype, and perhaps a sharding.
    device
        Where arrays go whose leaf has no sharding.
    """
    if not (hasattr(leaf, "shape") and hasattr(leaf, "dtype")):
        msg = (
            f"pull takes a tree of descriptions, and a leaf has type {type(leaf).__name__}. Pass "
            "devrt.ShapeDtypeStruct(shape, dtype, sharding=...)."
        )
        raise InvalidTypeError(msg, operation="pull")
    form = leaf.format if isinstance(leaf, ShapeDtypeStruct) else None
    if form is not None and form.layout is not None:
        msg = "pull makes arrays of the default layout. Move what it returns to the layout."
        raise UnimplementedError(msg, operation="pull")
    sharding = getattr(leaf, "sharding", None)
    where = single_device_sharding(device) if sharding is None else sharding
    return Incoming(tuple(leaf.shape), _dtype(leaf), where)


def _dtype(leaf: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(leaf.dtype)
    except TypeError as error:
        msg = f"pull makes arrays of numbers, and a leaf has dtype {leaf.dtype}. Pull their words."
        raise InvalidTypeError(msg, operation="pull") from error
    return dtype


def into(leaf: Any) -> Incoming | IntoHost:
    """Return what takes elements into an array of the caller's."""
    if isinstance(leaf, np.ndarray):
        return IntoHost(leaf)
    if isinstance(leaf, Array):
        return _IntoArray(leaf)
    msg = (
        f"pull_into fills NumPy arrays and takes the place of devrt's, and a leaf has type "
        f"{type(leaf).__name__}. Use pull for descriptions."
    )
    raise InvalidTypeError(msg, operation="pull_into")


class _HostBlock:
    """Memory that a client for processors takes as it is."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        size = math.prod(shape) * dtype.itemsize
        try:
            raw = np.empty(size + _ALIGNMENT, np.uint8)
        except MemoryError as error:
            msg = f"out of memory: cannot allocate {size} bytes on the host for a pulled array."
            raise OutOfMemoryError(msg, requested=size) from error
        begin = -raw.ctypes.data % _ALIGNMENT
        self.elements: np.ndarray[Any, Any] = raw[begin : begin + size].view(dtype).reshape(shape)

    def put(self, target: Target) -> Buffer:
        semantics = HostBufferSemantics.IMMUTABLE_UNTIL_TRANSFER_COMPLETES
        return client_of(target).buffer_from_pyval(self.elements, target, False, semantics)


class _PinnedBlock:
    """Page-locked memory, which a device copies from fast."""

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        buffer.block_until_ready()
        address = buffer.unsafe_buffer_pointer()
        memory: Any = (ctypes.c_char * buffer.nbytes).from_address(address)
        self.elements = np.frombuffer(memory, np.uint8).view(buffer.dtype).reshape(buffer.shape)

    def put(self, target: Target) -> Buffer:
        memory = target.default_memory() if isinstance(target, Device) else target
        return self._buffer.copy_to_memory(memory)


def _block(
    shape: tuple[int, ...], dtype: np.dtype[Any], target: Target
) -> _HostBlock | _PinnedBlock:
    memory = target.default_memory() if isinstance(target, Device) else target
    pinned = None if memory.is_host_visible else pinned_memory(memory.addressable_by_devices()[0])
    if pinned is None or 0 in shape:
        return _HostBlock(shape, dtype)
    client = client_of(target)
    try:
        return _PinnedBlock(client.buffer_from_pyval(np.empty(shape, dtype), pinned, True))
    except (OutOfMemoryError, UnimplementedError):  # it is scarce, and not everywhere
        return _HostBlock(shape, dtype)


def _regions(
    number: int, held: Sequence[Block], offset: tuple[int, ...], target: np.ndarray[Any, Any]
) -> list[Region]:
    """Return the parts of the held blocks that make up a block which begins at an offset."""
    found, size = [], 0
    for block, (start, shape) in enumerate(held):
        lower = tuple(map(max, offset, start))
        upper = tuple(
            min(o + n, s + m) for o, n, s, m in zip(offset, target.shape, start, shape, strict=True)
        )
        if all(low < up for low, up in zip(lower, upper, strict=True)):
            here = [slice(a - o, b - o) for a, b, o in zip(lower, upper, offset, strict=True)]
            there = tuple(a - s for a, s in zip(lower, start, strict=True))
            cut: Any = (*here, ...)
            part = target[cut]
            found.append(Region(number, block, there, part))
            size += part.size
    if size != target.size:
        msg = (
            f"array {number} cannot be pulled whole: the other process holds {size} of the "
            f"{target.size} elements of the block at {offset}. Have each process offer what it "
            "holds as an array of its own, and put those together."
        )
        raise DistributedError(msg, code=StatusCode.FAILED_PRECONDITION, array=number)
    return found
