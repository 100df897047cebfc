"""An exception's message, also of a class that cannot say it."""

from __future__ import annotations

__all__ = ["words"]


def words(error: BaseException) -> str:
    """Return an exception's message, whatever its class makes of that."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001  plugin code: an exception of its own may not even print
        return "(its message cannot be shown)"
