"""A buffer that stays as it is while a plugin's function works on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from devrt_pjrt._native import ffi, lib

if TYPE_CHECKING:
    from devrt_pjrt.buffers.buffer import PjrtBuffer

__all__ = ["Pinned"]


class Pinned:
    """Keeps a buffer and its client as they are while a plugin's function works on it."""

    __slots__ = ("_of", "_operation")

    def __init__(self, of: PjrtBuffer, operation: str) -> None:
        self._of = of
        self._operation = operation

    def __enter__(self) -> Any:
        of = self._of
        found = ffi.new("PJRT_Buffer **")
        status = lib.devrt_pin(of.connection.core, of.handle, found)
        if status != lib.DEVRT_OK:
            of.fail(status, self._operation, None)
        return found[0]

    def __exit__(self, *_: object) -> None:
        lib.devrt_unpin(self._of.connection.core, self._of.handle)
