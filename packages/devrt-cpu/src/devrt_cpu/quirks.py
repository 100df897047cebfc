"""The quirks of the compiler that is installed, by the version of its wheel."""

from __future__ import annotations

import functools
import re
from importlib import metadata

from devrt.compiling.quirks import LibraryVersion, Quirk, matching
from devrt.compiling.xla_cpu_quirks import DISTRIBUTION, QUIRKS

__all__ = ["DISTRIBUTION", "QUIRKS", "installed"]


@functools.cache
def installed() -> tuple[Quirk, ...]:
    """Return the quirks of the installed compiler; none where there is no compiler."""
    try:
        version = metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ()
    release = re.match(r"\d+(?:\.\d+)*", version)
    numbers = tuple(map(int, release.group().split("."))) if release else ()
    return matching(QUIRKS, LibraryVersion(DISTRIBUTION, numbers))
