"""What lets Python 3.11 show arrays through the buffer protocol."""

from __future__ import annotations

from typing import Any

__all__ = ["BufferExporter"]


class BufferExporter:
    """Base of a class in Python whose instances `memoryview` and its like take.

    Python reads ``__buffer__`` from 3.12 on. On 3.11 only C code fills the slot behind it, and
    devrt-core has none. (A callback of ctypes could fill it, but raise no errors.) The native
    module of a backend, when it is imported, fills it for this class and those that derive from
    it: see ``devrt/buffers/buffer_protocol.h``, which each module built with the SDK calls.
    """

    __slots__ = ()

    def _exported(self, flags: int) -> Any:
        """Return the object that shows the data; ``flags`` are those of `inspect.BufferFlags`.

        Text says why there is none, as a `BufferError`. NumPy asks each time that it reads an
        array, and drops every error.
        """
        raise NotImplementedError

    def __buffer__(self, flags: int) -> memoryview:
        shown = self._exported(flags)
        if isinstance(shown, str):
            raise BufferError(shown)
        return memoryview(shown)
