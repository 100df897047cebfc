"""Host values that stay read-only for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["is_read_only", "read_only"]

NEVER_WRITABLE: set[type] = {bytes}
"""Types that own memory which no array over it can make writable: found as they are met."""


def read_only(host: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array with the elements of ``host`` that nobody can make writable again.

    Elements that lie densely are not copied: nothing else is to write to them. `Buffer.__array__`
    is read so, because every reader of an array is handed the same one.
    """
    return host if is_read_only(host) else _protected(host)


def is_read_only(host: np.ndarray[Any, Any]) -> bool:
    """Return whether an array is one that a native backend returns: a view of read-only memory.

    It is called in every first reading, so that it looks no further than that.
    """
    base: Any = host.base
    if host.flags.writeable:
        return False
    return bool(base.readonly) if type(base) is memoryview else type(base) in NEVER_WRITABLE


def _protected(given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    import numpy as np

    host: np.ndarray[Any, Any] = np.asarray(given)  # of no subclass
    if not _can_be_written(host):
        return host
    if not host.size:
        empty = np.empty(host.shape, host.dtype)
        empty.flags.writeable = False
        return empty
    if host.flags.f_contiguous and not host.flags.c_contiguous:
        return _protected(host.T).T
    # An array over a read-only buffer; a flag alone can be set back.
    dense = np.ascontiguousarray(host).reshape(-1).view(np.uint8)
    data = memoryview(dense).toreadonly()  # type: ignore[arg-type]
    flat: np.ndarray[Any, Any] = np.frombuffer(data, np.uint8).view(host.dtype)
    return flat.reshape(host.shape)


def _can_be_written(host: np.ndarray[Any, Any]) -> bool:
    """Return whether the array or one that it is a view of is writable, or can be made so."""
    import numpy as np

    base: Any = host
    while isinstance(base, np.ndarray):
        if base.flags.writeable or base.base is None:  # an array may unlock memory of its own
            return True
        base = base.base
    # NumPy sets the flag of an array again where what owns the memory shows it as writable.
    try:
        return not memoryview(base).readonly
    except TypeError:
        NEVER_WRITABLE.add(type(base))  # of native code, which is not queried again
        return False
