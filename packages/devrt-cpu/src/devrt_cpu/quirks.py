"""The quirks of the compiler that is installed, by the version of its wheel."""

from __future__ import annotations

import functools
from importlib import metadata

from devrt.compiling.quirks import LibraryVersion, Quirk, matching
from devrt.compiling.xla_cpu import DISTRIBUTION, QUIRKS

__all__ = ["DISTRIBUTION", "QUIRKS", "installed"]


@functools.cache
def installed() -> tuple[Quirk, ...]:
    """Return the quirks of the installed compiler; none where there is no compiler."""
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ()
    numbers = [int(part) for part in version.split(".") if part.isdigit()]
    return matching(QUIRKS, LibraryVersion(DISTRIBUTION, tuple(numbers)))
