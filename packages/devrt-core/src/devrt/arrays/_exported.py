"""What an array shows through the buffer protocol, other than NumPy's view of its value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["dropped", "exported", "raise_dropped"]

dropped: list[tuple[object, KeyboardInterrupt]] = []
"""The interrupt of an array's view that was waited for: NumPy drops it, as all errors of the
buffer protocol, and asks the same object for an array next."""


def raise_dropped(array: object) -> None:
    """Raise what NumPy has dropped, if it asks for the same array now."""
    found = dropped.copy()
    dropped.clear()
    for of, interrupt in found:
        if of is array:
            raise interrupt


_WRITABLE = 0x1  # of inspect.BufferFlags, which Python 3.11 does not have


def exported(host: np.ndarray[Any, Any], flags: int) -> np.ndarray[Any, Any]:
    """Return what shows an array's host value as ``flags`` of the protocol ask for it.

    Raises
    ------
    BufferError
        If it is to be written to, or a format is asked for and the protocol has none.
    """
    import numpy as np

    if flags & _WRITABLE:
        msg = "a devrt array is immutable: it shows read-only views. Change a copy, numpy.array(x)."
        raise BufferError(msg)
    if not flags:  # bytes without a shape or a format: those of every dtype, in row-major order
        return host.reshape(-1).view(np.uint8)
    if host.dtype.isbuiltin == 1:
        return host
    msg = (
        f"the buffer protocol has no format for {host.dtype}, one of ml_dtypes' types. Use "
        "numpy.asarray(x), or DLPack."
    )
    raise BufferError(msg)
