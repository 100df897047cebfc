"""The words for a name of the interface that this release does not have."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["absent"]


def absent(module: str, name: str, not_yet: Collection[str]) -> str:
    """Return why a module has no attribute of a name; ``not_yet`` are those that will come."""
    msg = f"module {module!r} has no attribute {name!r}"
    if name in not_yet:
        msg += "; it needs what this release does not have yet. The README lists that."
    return msg
