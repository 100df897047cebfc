"""What an array shows through the buffer protocol."""

from __future__ import annotations

import functools
import sys
from threading import get_ident
from typing import TYPE_CHECKING, Any, NamedTuple

from devrt._config.layers import Config
from devrt.arrays.missing import gone
from devrt.errors import DevrtError, InvalidArgumentError, NoInterfaceError, UnimplementedError

if TYPE_CHECKING:
    import numpy as np

    from devrt.arrays.array import Array
    from devrt.contract import Buffer

__all__ = ["BROKEN_OFF", "device_interface", "exported", "raise_broken_off"]

# Of inspect.BufferFlags, which Python 3.11 does not have.
_WRITABLE = 0x1
_FORMAT = 0x4
_STRIDES = 0x10
_C_CONTIGUOUS = 0x20
_FULL_RO = 0x11C


class _BrokenOff(NamedTuple):
    call: tuple[int, int, int]
    kind: type[BaseException]
    args: tuple[Any, ...]


BROKEN_OFF: dict[int, _BrokenOff] = {}
"""What broke off the waiting of `exported` last, by thread. It is empty but for an interrupt.

NumPy asks for a buffer, drops every error, and calls ``__array__``, which would wait again."""


def exported(x: Array, flags: int) -> Any:
    """Return what shows an array's value as ``flags`` of the protocol ask for it.

    Text, without waiting, says why nothing does: it is to be written to, or a format is requested
    and the protocol has none.
    """
    if BROKEN_OFF:
        BROKEN_OFF.pop(get_ident(), None)
    if flags & _WRITABLE:
        return (
            "a devrt array is immutable: it shows read-only views. Change a copy, numpy.array(x)."
        )
    is_single = len(x._buffers) == 1
    if flags & _FORMAT and x.dtype.isbuiltin != 1:
        refusal = _without_format(x.dtype)
        if is_single:
            x._shown = refusal
        return refusal
    is_first = x._host is None
    try:
        if flags == _FULL_RO and x._shape is None and is_first and not Config.guards_are_set:
            x._shown = _own_view(x._buffers[0])
            if x._shown is not None:
                return x._shown
        host = x._value()
    except DevrtError:
        raise
    except BaseException as error:
        # Without the error itself, whose traceback holds arrays.
        BROKEN_OFF[get_ident()] = _BrokenOff(_call_on(x), type(error), error.args)
        raise
    if flags == _FULL_RO:
        if is_single and not is_first:  # a view of it takes time, which only later readings repay
            x._shown = memoryview(host)  # type: ignore[arg-type]
        return host
    return _laid_out(host, flags)


_WITHOUT_VIEW: set[type] = set()
"""Classes of buffers that have no buffer protocol."""


def _own_view(buffer: Buffer) -> memoryview | None:
    """Return the view that a native buffer gives of itself: quicker than its NumPy array."""
    if type(buffer) in _WITHOUT_VIEW:
        return None
    try:
        view = memoryview(buffer)  # type: ignore[arg-type]
    except TypeError:
        _WITHOUT_VIEW.add(type(buffer))
        return None
    return view if view.readonly and view.shape == buffer.shape else None


@functools.cache
def _without_format(dtype: np.dtype[Any]) -> str:
    return (
        f"the buffer protocol has no format for {dtype}, one of ml_dtypes' types. Use bytes(x), "
        "numpy.asarray(x), or DLPack."
    )


def raise_broken_off(x: Array) -> None:
    """Raise what broke off `exported` of ``x``, if NumPy dropped it within the call that asks."""
    broken_off = BROKEN_OFF.pop(get_ident(), None)
    if broken_off is not None and broken_off.call == _call_on(x):
        raise broken_off.kind(*broken_off.args)


def _call_on(x: Array) -> tuple[int, int, int]:
    """Return which call of the user's code is in progress: its frame and instruction."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("devrt."):
        frame = frame.f_back
    return id(x), id(frame), frame.f_lasti


def _laid_out(host: np.ndarray[Any, Any], flags: int) -> np.ndarray[Any, Any]:
    """Return a host value for those who ask for less than its strides and format."""
    import numpy as np

    if not flags & _STRIDES or flags & _C_CONTIGUOUS:  # the order is row-major
        host = np.asarray(host, order="C")
        host.flags.writeable = False
    # Bytes without a shape or a format: those of every dtype.
    return host if flags else host.reshape(-1).view(np.uint8)


def device_interface(x: Array) -> dict[str, Any]:
    """Return what other libraries read the memory of a GPU by: version 3, for reading only.

    Raises
    ------
    DeletedError
        If the array was deleted.
    NoInterfaceError
        If it lies on no GPU or on several, or the interface has no name for its dtype.
    """
    operation = "__cuda_array_interface__"
    if x.is_deleted():
        raise gone(x, operation)
    try:
        shown: dict[str, Any] = getattr(x._only(operation), operation)
    except (AttributeError, InvalidArgumentError, UnimplementedError) as error:
        raise NoInterfaceError(str(error), operation=operation) from error
    return shown
