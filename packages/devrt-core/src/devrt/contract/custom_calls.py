"""Custom calls: what functions that compiled programs call are given."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

__all__ = ["DeviceCall", "RawBuffer"]


@dataclasses.dataclass(frozen=True, slots=True)
class RawBuffer:
    """Memory that a handler is given, valid until it returns.

    Attributes
    ----------
    address : int
        Of the first byte: device memory on a GPU, host memory on a CPU.
    shape : tuple of int
        Dimensions.
    dtype : numpy.dtype
        Type of the elements, which lie dense in the order of the call's layout.
    """

    address: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        """Bytes that the elements take."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count * int(self.dtype.itemsize)


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceCall:
    """What a handler of kind ``"device"`` is called with.

    Attributes
    ----------
    arguments, results : tuple of RawBuffer
        What it reads, and what it must fill.
    attributes : dict
        The call's ``backend_config``, by name.
    stream : int
        On a GPU the stream that its work belongs on, as its driver's handle; else 0.
    """

    arguments: tuple[RawBuffer, ...]
    results: tuple[RawBuffer, ...]
    attributes: dict[str, Any]
    stream: int
