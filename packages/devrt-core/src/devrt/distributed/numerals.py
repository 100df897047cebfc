"""Numbers that are kept as decimal text, as every engine keeps what it increments."""

from __future__ import annotations

from devrt.errors import DistributedError, StatusCode

__all__ = ["added"]

_LARGEST = 2**63


def added(key: str, value: bytes | None, by: int) -> int:
    """Return the number in a value, 0 of None, plus another."""
    try:
        total = (0 if value is None else int(value.decode("ascii"))) + by
    except ValueError:
        msg = (
            f"FAILED_PRECONDITION: key {key!r} cannot be incremented: its value "
            f"{(value or b'')[:40]!r} is no number. Delete it first, or use another key."
        )
        raise DistributedError(msg, code=StatusCode.FAILED_PRECONDITION, key=key) from None
    if not -_LARGEST <= total < _LARGEST:
        msg = f"OUT_OF_RANGE: key {key!r} cannot be incremented by {by}: {total} has over 64 bits."
        raise DistributedError(msg, code=StatusCode.OUT_OF_RANGE, key=key)
    return total
