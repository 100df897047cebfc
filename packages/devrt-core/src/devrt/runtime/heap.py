"""The heap profile of a client of the default runtime."""

from __future__ import annotations

import os
from pathlib import Path

from devrt.contract import Client
from devrt.runtime.current import default_runtime

__all__ = ["heap_profile"]


def heap_profile(
    path: str | os.PathLike[str] | None = None, platform: str | Client | None = None
) -> bytes:
    """Return what lives in the memory of a platform, by the call site where it was made.

    Parameters
    ----------
    path
        A file to write the profile to as well; ``devrt heap FILE`` and pprof read it.
    platform
        The platform or client; None for the default one.

    Returns
    -------
    bytes
        A gzipped pprof profile: the values ``objects`` (count) and ``space`` (bytes), with labels
        for the device, the memory kind, and the shape and dtype.

    Raises
    ------
    UnimplementedError
        If the platform's client makes no profiles.
    """
    profile = default_runtime().get_backend(platform).heap_profile()
    if path is not None:
        Path(path).write_bytes(profile)
    return profile
