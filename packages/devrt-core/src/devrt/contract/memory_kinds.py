"""Names of memory kinds."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["memory_kind_named"]

_PINNED = "pinned_host"


def memory_kind_named(name: str, kinds: Sequence[str]) -> str:
    """Return the kind that a name means on a device.

    Parameters
    ----------
    name
        A kind; ``"default"`` for the device's first, ``"pinned"`` for ``"pinned_host"``.
    kinds
        Those of the device, the default one first.

    Returns
    -------
    str
        One of ``kinds``, or ``name`` where it means none of them. A kind of that very name comes
        first.
    """
    if name in kinds:
        return name
    if name == "default" and kinds:
        return kinds[0]
    return _PINNED if name == "pinned" and _PINNED in kinds else name
