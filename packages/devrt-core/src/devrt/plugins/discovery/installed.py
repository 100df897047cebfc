"""Which plugins are installed, without importing any of them.

The standard library answers the same question through ``importlib.metadata``, whose import alone
costs more than all of this module's work: it reads every distribution's metadata through the
email parser. Here only ``entry_points.txt`` files are opened. Where distributions can hide from a
plain look at the folders of ``sys.path`` (a zip archive on the path, a foreign metadata finder),
the standard library answers; a test holds the answers equal.

The sources, in the order in which their plugins are reported: entry points and the namespace
package of devrt's own group, the environment, and then plugins that were made for JAX or XLA.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import PathFinder

from devrt.plugins.discovery import adopted as _adopted
from devrt.plugins.discovery.refs import (
    ENTRY_POINT_GROUP,
    ENVIRONMENT_VARIABLE,
    FROM_NAMESPACE,
    UNNAMED,
    PluginRef,
    in_order,
)
from devrt.plugins.discovery.sources import (
    Distribution,
    Site,
    distributions_by_library,
    distributions_in,
    list_folder,
    namespace_modules,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "ENTRY_POINT_GROUP",
    "PluginRef",
    "discover_plugins",
    "environment_plugins",
    "installed_plugins",
]

_NAMESPACES = (ENTRY_POINT_GROUP, _adopted.NAMESPACE)
_GROUPS = (ENTRY_POINT_GROUP, *_adopted.GROUPS)


def discover_plugins(
    path: Sequence[str] | None = None, environ: Mapping[str, str] | None = None
) -> tuple[PluginRef, ...]:
    """Return every plugin there is: the installed ones and those that the environment names."""
    found = (*installed_plugins(path), *environment_plugins(environ))
    return tuple(sorted(found, key=in_order))


def environment_plugins(environ: Mapping[str, str] | None = None) -> tuple[PluginRef, ...]:
    """Return the plugins that the environment names; the malformed ones with what is wrong."""
    text = (os.environ if environ is None else environ).get(ENVIRONMENT_VARIABLE)
    if not text:
        return ()
    from devrt.plugins.discovery.pjrt_env import plugins_in  # seldom needed, and startup counts

    return plugins_in(text)


def installed_plugins(path: Sequence[str] | None = None) -> tuple[PluginRef, ...]:
    """Return the plugins that distributions on a path bring, ``sys.path`` if omitted, in order.

    Of two distributions with one name, the earlier folder's counts, as it does for imports.
    """
    folders = list(
        dict.fromkeys(entry or os.curdir for entry in (sys.path if path is None else path))
    )
    sites = [list_folder(folder, _NAMESPACES) for folder in folders]
    distributions = list(
        distributions_in(sites) if _plain(folders) else distributions_by_library(folders)
    )
    points = [list(dist.entry_points(_GROUPS)) for dist in distributions]
    own = set(_own_entry_points(distributions, points))
    own |= set(_own_namespace(sites, distributions, {ref.module for ref in own}))
    served = {(ref.platform, ref.distribution) for ref in own}
    adopted = {
        ref
        for ref in _adopted.adopted_plugins(sites, distributions, points)
        if (ref.platform, ref.distribution) not in served  # it speaks for itself there
    }
    return tuple(sorted(own | adopted, key=in_order))


def _plain(folders: Iterable[str]) -> bool:
    foreign = any(
        finder is not PathFinder
        and hasattr(finder, "find_distributions")
        # That of importlib_metadata, which puts itself there, finds what is in the folders.
        and type(finder).__module__ != "importlib_metadata"
        for finder in sys.meta_path
    )
    return not foreign and not any(
        folder.endswith(".egg") or os.path.isfile(folder) for folder in folders
    )


def _own_entry_points(
    distributions: Sequence[Distribution], points: Sequence[Sequence[tuple[str, str, str]]]
) -> Iterator[PluginRef]:
    for dist, mine in zip(distributions, points, strict=True):
        named = [point for point in mine if point[0] == ENTRY_POINT_GROUP]
        if named:
            name, version = dist.name_and_version()
            yield from (_own(platform, name, version, module) for _, platform, module in named)


def _own(platform: str, distribution: str, version: str, module: str) -> PluginRef:
    if platform and not set(platform) & set(",@ \t"):
        return PluginRef(platform, distribution, version, module)
    problem = (
        f"an entry point of {distribution} in group {ENTRY_POINT_GROUP} is called {platform!r}, "
        "which cannot be requested: its name is that of its platform, without blanks, commas and "
        "'@'; its author must correct it"
    )
    return PluginRef(UNNAMED, distribution, version, module, problem=problem)


def _own_namespace(
    sites: Sequence[Site], distributions: Sequence[Distribution], named: set[str]
) -> Iterator[PluginRef]:
    for module in namespace_modules(sites, ENTRY_POINT_GROUP):
        dotted = f"{ENTRY_POINT_GROUP}.{module.name}"
        if dotted not in named:
            owner = module.owner(ENTRY_POINT_GROUP, distributions)
            name, version = owner.name_and_version() if owner else ("(namespace)", "")
            yield PluginRef(module.name.lower(), name, version, dotted, FROM_NAMESPACE)
