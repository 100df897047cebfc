"""One device's part of an array, and putting the parts together again on the host."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from devrt.arrays.array import Array
from devrt.arrays.missing import gone, held_elsewhere
from devrt.arrays.read_only import host_of
from devrt.contract import Device, read_only
from devrt.contract.transfers import BatchedTransfers
from devrt.errors import InvalidArgumentError
from devrt.runtime.plugin_errors import names_plugins

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Shard", "addressable_shards", "gather", "global_shards", "read_into"]

Index = tuple[slice, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Shard:
    """The part of an array that one device holds.

    Attributes
    ----------
    device : Device
        The device.
    index : tuple of slice
        Where the part lies in the global array.
    replica_id : int
        Number of this copy among the devices that hold the same part.
    data : Array or None
        The part itself; None where another process holds it.
    """

    device: Device
    index: Index
    replica_id: int
    data: Array | None

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id})"


def global_shards(array: Array) -> list[Shard]:
    """Return every shard of ``array`` in the order of its device assignment."""
    sharding = array.sharding
    indices = sharding.devices_indices_map(array.shape)
    held = {buffer.device: buffer for buffer in array._buffers}
    copies: dict[tuple[tuple[int | None, int | None], ...], int] = {}
    shards = []
    for device in sharding._device_assignment:
        index = indices[device]
        key = tuple((part.start, part.stop) for part in index)
        copies[key] = replica = copies.get(key, -1) + 1
        buffer = held.get(device)
        data = None if buffer is None else Array((buffer,), None, None, array.committed)
        shards.append(Shard(device, index, replica, data))
    return shards


def addressable_shards(array: Array) -> list[Shard]:
    """Return the shards of ``array`` that this process holds."""
    return [shard for shard in global_shards(array) if shard.data is not None]


@names_plugins
def gather(array: Array) -> np.ndarray[Any, Any]:
    """Return the whole array in host memory, each element copied once, read-only.

    Raises `InvalidArgumentError` if other processes hold parts of it.
    """
    import numpy as np

    if array.is_deleted():
        raise gone(array, "read")
    _check_addressable(array)
    if array.is_fully_replicated:
        return host_of(array._buffers[0])
    whole = np.empty(array.shape, array.dtype)
    _read_shards(array, whole)
    return read_only(whole)


@names_plugins
def read_into(x: Any, out: Any) -> Any:
    """Write an array, or what ``numpy.asarray`` makes of another value, into ``out``; return it.

    Raises `InvalidArgumentError` if ``out`` is not writable or not of its shape and dtype.
    """
    import numpy as np

    source: Any = x if type(x) is Array else np.asarray(x)
    is_array = isinstance(out, np.ndarray)
    if not is_array or out.shape != source.shape or out.dtype != source.dtype:
        found = f"{out.dtype}{list(out.shape)}" if is_array else f"a {type(out).__name__}"
        msg = (
            f"out must be a numpy array of dtype {source.dtype} and shape {source.shape}, "
            f"not {found}."
        )
        raise InvalidArgumentError(msg, shape=source.shape, dtype=str(source.dtype))
    if not out.flags.writeable:
        msg = "out is read-only, so nothing can be written into it. Pass a writable array."
        raise InvalidArgumentError(msg)
    if type(x) is not Array:
        out[...] = source
        return out
    if x.is_deleted():
        raise gone(x, "device_get")
    x._check_readable("device_get", is_explicit=True)
    _check_addressable(x)
    _read_shards(x, out)
    return out


def _check_addressable(array: Array) -> None:
    if not array._buffers:
        raise held_elsewhere(array, "reading it")
    if array.is_fully_addressable or array.is_fully_replicated:
        return
    missing = sum(shard.data is None for shard in global_shards(array))
    msg = (
        f"this array of shape {array.shape} spans processes: {missing} of its shards are held "
        "elsewhere, so its value cannot be read here. Look at x.addressable_shards instead, or "
        "gather it in every process with devrt.experimental.multihost_utils.process_allgather."
    )
    raise InvalidArgumentError(msg, missing=missing)


def _read_shards(array: Array, whole: np.ndarray[Any, Any]) -> None:
    """Write every distinct shard into ``whole``, in one call to the client."""
    buffers, offsets = array._buffers, [(0,) * array.ndim]
    if array.is_fully_replicated:
        buffers = buffers[:1]
    else:
        placement = array.sharding.placement(array.shape)
        first = [number for number, replica in enumerate(placement.replica_ids) if not replica]
        buffers = [buffers[number] for number in first]
        offsets = [placement.offsets[number] for number in first]
    filled = len(buffers) * buffers[0].size
    if filled != whole.size:
        msg = (
            f"{array.sharding} maps {filled} elements of an array of {whole.size} to devices: its "
            "parts overlap or leave some out. Correct its devices_indices_map."
        )
        raise InvalidArgumentError(msg, sharding=array.sharding)
    client = buffers[0].device.client
    # A client's own way writes dense memory only; the contract's goes through NumPy.
    copy = type(client) if whole.flags.c_contiguous else BatchedTransfers
    copy.batched_copy_to_host(client, buffers, offsets, whole)
