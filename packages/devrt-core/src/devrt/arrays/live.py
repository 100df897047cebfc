"""Which arrays are alive: the garbage collector knows, so creating an array costs nothing extra."""

from __future__ import annotations

import gc

from devrt._support import caches
from devrt.arrays.array import Array
from devrt.arrays.reshard import forget_routes
from devrt.contract import Client
from devrt.runtime import default_runtime

__all__ = ["clear_caches", "live_arrays"]


def live_arrays(platform: str | Client | None = None) -> list[Array]:
    """Return the arrays that are neither deleted nor collected.

    Parameters
    ----------
    platform
        Only arrays of this platform or client; None for all.
    """
    # Another thread may be between making an array and filling it in: that one has no buffers yet.
    found = [x for x in gc.get_objects() if type(x) is Array and hasattr(x, "_buffers")]
    arrays = [x for x in found if not x.is_deleted()]
    if platform is None:
        return arrays
    client = default_runtime().get_backend(platform)
    return [x for x in arrays if next(iter(x.devices())).client is client]


def clear_caches() -> None:
    """Drop what devrt keeps only to be faster the next time.

    That is the traces and programs of functions, the copy plans of reshards, and the host copies of
    arrays that were read. Placement plans are kept in their shardings and dropped with them;
    programs that the disk cache holds stay there.
    """
    caches.clear_all()
    forget_routes()
    for array in live_arrays():
        array._host = array._shown = None
