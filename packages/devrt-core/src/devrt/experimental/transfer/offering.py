"""Arrays as they are offered: the blocks that this process holds, read when they are requested."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock, Semaphore
from typing import TYPE_CHECKING, Any

from devrt.arrays import Array
from devrt.distributed.transfer.offers import Block, OfferedArray
from devrt.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["check_uuid", "offered"]


def check_uuid(uuid: Any) -> int:
    """Return the number of an offer, or refuse what is none."""
    if isinstance(uuid, bool) or not hasattr(uuid, "__index__"):
        msg = f"uuid must be an integer, not {uuid!r}."
        raise InvalidTypeError(msg, argument="uuid")
    number = uuid.__index__()
    if not 0 <= number < 1 << 64:
        msg = f"uuid must have 64 bits at most and be positive, and {number} does not."
        raise InvalidArgumentError(msg, argument="uuid")
    return int(number)


def offered(leaves: Sequence[Any], copies: Semaphore) -> list[OfferedArray]:
    """Return arrays as an offer has them; of each block that several devices hold, one.

    Parameters
    ----------
    leaves
        The arrays.
    copies
        Limits how many blocks are copied from devices at a time.
    """
    import numpy as np

    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, Array) or not isinstance(leaf.dtype, np.dtype):
            msg = (
                f"leaf {number} of what is offered has type {type(leaf).__name__}, and is to be an "
                "array of devrt, of numbers. Put it on a device first: devrt.device_put; of keys "
                "offer devrt.random.key_data."
            )
            raise InvalidTypeError(msg, leaf=number)
    return [_offered(leaf, copies) for leaf in leaves]


def _offered(array: Array, copies: Semaphore) -> OfferedArray:
    found: dict[tuple[int, ...], Block] = {}
    for shard in array.addressable_shards:
        start = tuple(part.start or 0 for part in shard.index)
        if start not in found and shard.data is not None:
            found[start] = Block(start, shard.data.shape, _HostCopy(shard.data, copies))
    shape, dtype = tuple(array.shape), array.dtype
    return OfferedArray(shape, str(dtype), dtype.itemsize, tuple(found.values()))


class _HostCopy:
    """A block's elements on the host, fetched once: a view where the host sees its memory."""

    def __init__(self, data: Array, copies: Semaphore) -> None:
        self._data = data
        self._copies = copies
        self._lock = Lock()
        self._host: np.ndarray[Any, Any] | None = None

    def __call__(self) -> np.ndarray[Any, Any]:
        import numpy as np

        with self._lock:
            if self._host is None:
                with self._copies:
                    self._host = np.asarray(self._data)
            return self._host
