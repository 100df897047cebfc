"""Arrays whose data is not here: deleted, gone with its client, or held by other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt import dtypes
from devrt.contract import Buffer
from devrt.errors import ClosedError, DeletedError, DevrtError, InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np

    from devrt.arrays._array import Array
    from devrt.sharding import Sharding

__all__ = ["NoShards", "gone", "held_elsewhere"]


class NoShards(tuple[Buffer, ...]):
    """The buffers of an array of which this process holds nothing: none, and what they would tell.

    Parameters
    ----------
    dtype
        What becomes a dtype that devices hold.
    sharding
        The array's sharding, over devices of other processes.

    Attributes
    ----------
    dtype : numpy.dtype
        The array's element type.
    is_deleted : bool
        Whether the array was deleted.

    Raises
    ------
    InvalidTypeError
        If no device can hold the dtype.
    UnimplementedError
        If the devices are only described: then no process would hold the data.
    """

    dtype: np.dtype[Any]
    is_deleted: bool

    def __new__(cls, dtype: Any, sharding: Sharding) -> NoShards:
        _ = sharding._device_assignment[0].client  # a device that is only described has none
        made = super().__new__(cls)
        made.dtype = dtypes.to_numpy(dtypes.code_of(dtype))
        made.is_deleted = False
        return made


def held_elsewhere(x: Array, operation: str) -> DevrtError:
    """Return the error that says that other processes have all of the data."""
    msg = (
        f"{operation} needs data of this array of shape {x.shape}, and this process holds none: no "
        f"device of {x.sharding} belongs to it. Do this in a process that has a shard."
    )
    return InvalidArgumentError(msg, operation=operation, sharding=x.sharding)


def gone(x: Array, operation: str) -> DevrtError:
    """Return the error that says why the data is gone, and what to do."""
    client = x._buffers[0].device.client if x._buffers else None
    if client is not None and client.is_closed:
        msg = (
            f"the {client.platform} client of this array of shape {x.shape} was closed, and its "
            "data went with it. Read what is needed with devrt.device_get before closing the "
            "client or clearing the backends, and put it again afterwards."
        )
        return ClosedError(msg, operation=operation)
    msg = (
        f"this array of shape {x.shape} was deleted or donated, so its data is gone. "
        "Keep a clone() if it is needed afterwards."
    )
    return DeletedError(msg, operation=operation)
