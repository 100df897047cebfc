"""What an array shows through DLPack, and why it refuses a consumer's options."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from devrt.errors import InvalidArgumentError, InvalidTypeError

if TYPE_CHECKING:
    from devrt.arrays.array import Array

__all__ = ["capsule_of"]

_OPERATION = "__dlpack__"
_EXPORTING = (_OPERATION, "exchange")
_PAIRS = {
    "max_version": "a major and a minor version, such as (1, 0)",
    "dl_device": "a device type and a device number, such as (1, 0)",
}
_OPTIONS = ("stream", *_PAIRS, "copy")
_NUMBER_BITS, _HANDLE_BITS = 32, 64


def capsule_of(x: Array, **options: Any) -> Any:
    """Return an array's data as a DLPack capsule, with the options of the array API's protocol.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If an option is none of the protocol's, or not as the protocol has it.
    BufferError
        If the data cannot be had on ``dl_device``, or in the order of ``stream``.
    """
    buffer = x._only(_OPERATION)
    try:
        return buffer.__dlpack__(**options)
    except (BufferError, TypeError, InvalidArgumentError) as error:
        # Only now, as consumers give right options: the export itself checks nothing twice.
        refusal = _refusal(options)
        if refusal is None and getattr(error, "operation", _OPERATION) not in _EXPORTING:
            raise  # of the work that fills the array
        array = f"{x.dtype}[{', '.join(map(str, x.shape))}] on {buffer.device}"
        kind, why = refusal or (type(error), str(error))
        msg = f"{_OPERATION} of the array {array} failed: {why}"
        if kind in (InvalidTypeError, InvalidArgumentError):
            raise kind(msg, operation=_OPERATION) from None
        if kind is BufferError:
            raise BufferError(msg) from None
        raise


def _refusal(options: Mapping[str, Any]) -> tuple[type[Exception], str] | None:
    """Return the class of the error and what is wrong with options; None where a device says."""
    for name, value in options.items():
        if name not in _OPTIONS:
            return InvalidTypeError, f"it takes {', '.join(_OPTIONS)}, and not {name!r}."
        if value is None:
            continue
        if name in _PAIRS and not _is_pair(value):
            why = f"is not a tuple of two ints of at most {_NUMBER_BITS} bits, {_PAIRS[name]}"
            return InvalidTypeError, f"{name}={_shown(value)} {why}. Pass one, or leave it out."
        if name == "stream" and type(value) is int and not _fits(value, _HANDLE_BITS):
            why = f"is no stream's handle, which has at most {_HANDLE_BITS} bits"
            return InvalidArgumentError, f"stream={_shown(value)} {why}. Pass one, or leave it out."
    return None


def _is_pair(value: Any) -> bool:
    if not isinstance(value, tuple) or len(value) != 2:
        return False
    return all(isinstance(each, int) and _fits(each, _NUMBER_BITS) for each in value)


def _fits(number: int, bits: int) -> bool:
    return number.bit_length() < bits


def _shown(value: Any) -> str:
    if isinstance(value, int) and not _fits(value, 2 * _HANDLE_BITS):
        return f"an int of {value.bit_length()} bits"  # Python may refuse to write its digits
    return reprlib.repr(value)
