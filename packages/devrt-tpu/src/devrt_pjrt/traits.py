"""Which traits a library has: those that plugins bring, and those of XLA's library for the host."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable
from fnmatch import fnmatchcase

from devrt.records import PluginTraits

__all__ = ["Traits"]

_OTHERS = PluginTraits()
_HOST = PluginTraits(
    platforms=("cpu",),
    dlpack_device=1,
    takes_layouts=False,
    aliases_sources=True,
    runs_on_caller=True,
)


class Traits:
    """The traits that are known, with those that plugins bring, and which count for a library.

    ``name`` is the one under which the library is loaded; ``extensions`` are the numbers of those
    that it has. ``of_library`` is what counts before it has a client.
    """

    def __init__(
        self, known: Iterable[PluginTraits], name: str, path: str, extensions: Container[int]
    ) -> None:
        self._known = (*known, _HOST)
        found = [
            *(t for t in self._known if _is_like(os.path.basename(path), t)),
            *(t for t in self._known if _is_like(name, t)),
            *(t for t in self._known if any(number in extensions for number in t.extensions)),
        ]
        self.of_library = found[0] if found else _OTHERS

    def of_platform(self, platform: str) -> PluginTraits:
        """Return what counts for a client or a topology, by the library's word for its platform."""
        return next((t for t in self._known if platform in t.platforms), self.of_library)


def _is_like(name: str, traits: PluginTraits) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for pattern in traits.patterns)
