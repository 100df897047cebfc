"""Which plugins are installed, without importing any of them.

The standard library answers the same question through ``importlib.metadata``, whose import alone
costs more than all of this module's work: it reads every distribution's metadata through the
email parser. Here only ``entry_points.txt`` files are opened. Where distributions can hide from a
plain look at the folders of ``sys.path`` (a zip archive on the path, a foreign metadata finder),
the standard library is asked instead; a test holds the two answers equal.
"""

from __future__ import annotations

import dataclasses
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import PathFinder

__all__ = ["ENTRY_POINT_GROUP", "PluginRef", "installed_plugins"]

ENTRY_POINT_GROUP = "devrt_plugins"


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class PluginRef:
    """A plugin that somebody installed or registered, not yet loaded.

    Attributes
    ----------
    platform : str
        The entry point's name in lower case, as platforms are asked for.
    distribution : str
        The distribution's name; ``"(code)"`` for one registered by a call.
    version : str
        The distribution's version; empty where unknown.
    module : str
        The module to import.
    source : str
        How it was found.
    library : str
        A PJRT library that stands in for a module; empty for a plugin that is a module.
    """

    platform: str
    distribution: str
    version: str = ""
    module: str = ""
    source: str = f"entry point ({ENTRY_POINT_GROUP})"
    library: str = ""

    @property
    def name(self) -> str:
        """``platform@distribution``, unique among the installed plugins."""
        return f"{self.platform}@{self.distribution}"

    def __str__(self) -> str:
        version = f" {self.version}" if self.version else ""
        return f"{self.distribution}{version}"


def installed_plugins(path: Sequence[str] | None = None) -> tuple[PluginRef, ...]:
    """Return the plugins that distributions on ``path`` advertise, sorted by name.

    Parameters
    ----------
    path
        Folders to look into; ``sys.path`` when omitted. Of two distributions with one name, the
        earlier folder's counts, as it does for imports.
    """
    folders = list(
        dict.fromkeys(entry or os.curdir for entry in (sys.path if path is None else path))
    )
    if not _plain(folders):
        return tuple(sorted(set(_from_standard_library(folders))))
    return tuple(sorted(set(_from_folders(folders))))


def _plain(folders: Iterable[str]) -> bool:
    foreign = any(
        finder is not PathFinder and hasattr(finder, "find_distributions")
        for finder in sys.meta_path
    )
    return not foreign and not any(
        folder.endswith(".egg") or os.path.isfile(folder) for folder in folders
    )


def _from_standard_library(folders: Sequence[str]) -> Iterator[PluginRef]:
    from importlib.metadata import distributions

    seen: set[str] = set()
    for dist in distributions(path=list(folders)):
        name = dist.metadata["Name"] or "(unknown)"
        if _normalized(name) in seen:
            continue
        seen.add(_normalized(name))
        for platform, module in _entry_points(dist.read_text("entry_points.txt") or ""):
            yield PluginRef(platform, name, dist.metadata["Version"] or "", module)


def _from_folders(folders: Iterable[str]) -> Iterator[PluginRef]:
    seen: set[str] = set()
    for folder in folders:
        for info in sorted(_metadata_folders(folder)):
            stem = os.path.basename(info).rpartition(".")[0]
            name, _, version = stem.partition("-")
            key = _normalized(name)
            if key in seen:
                continue
            seen.add(key)
            points = list(_entry_points(_read(info, "entry_points.txt")))
            if points:
                name, version = _name_and_version(info, name, version)
            for platform, module in points:
                yield PluginRef(platform, name, version, module)


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _metadata_folders(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    yield entry.path
    except OSError:
        return  # not a folder, or not readable: nothing can be installed in it


def _read(info: str, name: str) -> str:
    try:
        with open(os.path.join(info, name), encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _entry_points(text: str) -> Iterator[tuple[str, str]]:
    if ENTRY_POINT_GROUP not in text:
        return
    group = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            group = line.strip("[]")
        elif group == ENTRY_POINT_GROUP and line and not line.startswith(("#", ";")):
            name, separator, value = line.partition("=")
            if separator:
                yield name.strip().lower(), value.split("[")[0].strip()


def _name_and_version(info: str, name: str, version: str) -> tuple[str, str]:
    header = (_read(info, "METADATA") or _read(info, "PKG-INFO")).partition("\n\n")[0]
    fields = dict(
        (key, value.strip())
        for key, found, value in (line.partition(":") for line in header.splitlines())
        if found and key in ("Name", "Version")
    )
    return fields.get("Name", name), fields.get("Version", version)
