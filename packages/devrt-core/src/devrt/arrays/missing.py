"""Arrays whose data is not here: deleted, gone with its client, or held by other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt import dtypes
from devrt.contract import Buffer, Client
from devrt.errors import ClosedError, DeletedError, DevrtError, InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

    from devrt.arrays.array import Array
    from devrt.sharding import Sharding

__all__ = ["NoShards", "gone", "held_elsewhere"]


class NoShards(tuple[Buffer, ...]):
    """The buffers of an array of which this process holds nothing: none, and what they would tell.

    ``client`` is that of the sharding's devices, which other processes have. Raises
    `InvalidTypeError` if no device can hold the dtype, and `UnimplementedError` if the devices are
    only described: then no process would hold the data.
    """

    dtype: np.dtype[Any]
    client: Client
    was_deleted: bool

    def __new__(cls, dtype: Any, sharding: Sharding) -> NoShards:
        """Remember what the elements would have been."""
        client = sharding._device_assignment[0].client  # a device that is only described has none
        made = super().__new__(cls)
        made.client = client
        made.dtype = dtypes.to_numpy(dtypes.code_of(dtype))
        made.was_deleted = False
        return made

    @property
    def is_deleted(self) -> bool:
        """Whether the array was deleted, or is gone with its client as those with shards are."""
        return self.was_deleted or self.client.is_closed


def held_elsewhere(x: Array, operation: str) -> DevrtError:
    """Return the error that says that other processes have all of the data, or that it is gone."""
    if x.is_deleted():
        return gone(x, operation)
    msg = (
        f"{operation} needs data of this array of shape {x.shape}, and this process holds none: no "
        f"device of {x.sharding} belongs to it. Do this in a process that has a shard."
    )
    return InvalidArgumentError(msg, operation=operation, sharding=x.sharding)


def gone(x: Array, operation: str) -> DevrtError:
    """Return the error that says why the data is gone, and what to do."""
    if _is_closed(x):
        msg = (
            f"{operation} failed: the client of this array of shape {x.shape} was closed, and its "
            "data went with it. Read what is needed with devrt.device_get before closing the "
            "client or clearing the backends, and put it again afterwards."
        )
        return ClosedError(msg, operation=operation)
    msg = (
        f"{operation} failed: this array of shape {x.shape} was deleted or donated, so its data is "
        "gone. Keep a clone() if it is needed afterwards."
    )
    return DeletedError(msg, operation=operation)


def _is_closed(x: Array) -> bool:
    buffers = x._buffers
    if isinstance(buffers, NoShards):
        return not buffers.was_deleted and buffers.client.is_closed
    try:
        return buffers[0].device.client.is_closed
    except DevrtError as error:  # a buffer whose data is gone may not tell its device any more
        return isinstance(error, ClosedError)
