"""The quirks of a plugin, by what its library says of itself: a file can have any name."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from devrt.compiling.quirks import LibraryVersion, Quirk, matching
from devrt.compiling.xla_cpu_engines import ENGINES
from devrt.compiling.xla_cpu_quirks import QUIRKS

if TYPE_CHECKING:
    from devrt_pjrt.library.library import Library

__all__ = ["LIBRARIES", "QUIRKS", "Identity", "identity_of", "quirks_of"]


class Identity(NamedTuple):
    """What a library tells of itself: its platform, and the versions that it was built with."""

    platform: str
    c_api: tuple[int, int]
    stablehlo: tuple[int, ...]


LIBRARIES: Mapping[Identity, LibraryVersion] = {
    Identity("cpu", engine.c_api, engine.stablehlo): LibraryVersion(engine.wheel, engine.version)
    for engine in ENGINES
}
"""The libraries that quirks are known of."""


def identity_of(library: Library, platform: str) -> Identity:
    """Return what tells an initialised library from others; the platform in its own word."""
    reported = library.attributes().get("stablehlo_current_version", ())
    return Identity(platform, library.version, tuple(reported))


@functools.cache  # a library stays what it is, and open
def quirks_of(library: Library, platform: str) -> tuple[Quirk, ...]:
    """Return the quirks of a library, for a platform in the plugin's own word."""
    if not any((platform, library.version) == known[:2] for known in LIBRARIES):
        return ()  # the plugin need not be queried
    return matching(QUIRKS, LIBRARIES.get(identity_of(library, platform)))
