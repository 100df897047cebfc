"""Numbers for the native module, checked before it is loaded or called."""

from __future__ import annotations

import operator as operators

__all__ = ["INT32_MAX", "INT64_MAX", "checked_int"]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def checked_int(name: str, value: int, operation: str, minimum: int, maximum: int) -> int:
    """Return what the native module can take, or say what is wrong with it."""
    from devrt.errors import InvalidArgumentError, InvalidTypeError

    try:
        number = operators.index(value)
    except TypeError:
        raise InvalidTypeError(
            f"{name} must be an int, not of type {type(value).__name__}.", operation=operation
        ) from None
    if not minimum <= number <= maximum:
        raise InvalidArgumentError(
            f"{name} must lie between {minimum} and {maximum}, and is {number}.",
            operation=operation,
        )
    return number
