"""Arguments that a plugin would not survive, or that Python would refuse without a reason."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from devrt.errors import InvalidArgumentError, InvalidTypeError

__all__ = [
    "checked_launch_id",
    "dims_of",
    "encoded",
    "listed",
    "number_of",
    "options_of",
    "seconds_of",
]

_MOST_BYTES = 1 << 62


def listed(values: Any, operation: str, what: str) -> list[Any] | tuple[Any, ...]:
    """Return what somebody gave as a list of buffers, or of layouts."""
    if isinstance(values, (list, tuple)):
        return values
    if isinstance(values, Iterable) and not isinstance(values, str | bytes | Mapping):
        return list(values)
    msg = f"{operation} failed: {what} must be a list of them, not {values!r:.60}."
    raise InvalidTypeError(msg, operation=operation)


def number_of(value: Any, what: str, operation: str) -> int:
    """Return an index or an offset as an int."""
    try:
        return operator.index(value)
    except TypeError as error:
        msg = f"{operation} failed: {what} must be an int, and is {value!r:.60}."
        raise InvalidTypeError(msg, operation=operation) from error


def checked_launch_id(value: Any) -> int:
    """Return the number of a launch, which plugins take in 32 bits.

    Raises
    ------
    InvalidTypeError, InvalidArgumentError
        If it is none.
    """
    number = number_of(value, "launch_id", "execute")
    if not -(1 << 31) <= number < 1 << 31:
        msg = f"execute failed: launch_id must fit into 32 bits, and is {number}."
        raise InvalidArgumentError(msg, operation="execute")
    return number


def dims_of(shape: Any, operation: str) -> tuple[int, ...]:
    """Return the dimensions of an array that can be requested of a device."""
    try:
        dims = tuple(operator.index(size) for size in shape)
    except TypeError as error:
        msg = f"{operation} failed: a shape is a tuple of ints, not {shape!r:.60}."
        raise InvalidTypeError(msg, operation=operation) from error
    # A size of 0 hides an overflow from the product, and not from the plugin.
    if min(dims, default=0) < 0 or math.prod(max(1, size) for size in dims) > _MOST_BYTES >> 4:
        msg = f"{operation} failed: no array can have shape {dims}."
        raise InvalidArgumentError(msg, operation=operation)
    return dims


def encoded(text: Any, what: str, operation: str) -> bytes:
    """Return a text as a plugin takes it."""
    try:
        if isinstance(text, str):
            return text.encode()
        why = f"is of type {type(text).__name__}"
    except UnicodeEncodeError as error:
        why = f"cannot be written as UTF-8 ({error.reason})"
    raise InvalidTypeError(f"{operation} failed: {what} must be text, and {why}.")


def options_of(options: Any) -> dict[str, Any]:
    """Return options as a dictionary of their own."""
    try:
        return dict(options or {})
    except (TypeError, ValueError) as error:
        msg = f"options are a dictionary by name, not {options!r:.60}."
        raise InvalidTypeError(msg) from error


def seconds_of(timeout: Any, operation: str) -> float | None:
    """Return a time limit; None where there is none, which infinity stands for too."""
    if timeout is None:
        return None
    try:
        seconds = float(timeout)
    except (TypeError, ValueError, OverflowError) as error:
        msg = f"{operation} failed: timeout must be a number of seconds, and is {timeout!r:.60}."
        raise InvalidTypeError(msg, operation=operation) from error
    if math.isnan(seconds):
        msg = f"{operation} failed: timeout must be a number of seconds, and is {timeout!r}."
        raise InvalidArgumentError(msg, operation=operation)
    return None if math.isinf(seconds) and seconds > 0 else seconds
