"""What lies in the folders of ``sys.path``: distributions and namespace packages, read once.

Each folder is listed once, and of each distribution only ``entry_points.txt`` is opened; its
``METADATA`` and ``RECORD`` are read where it turns out to bring a plugin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.machinery import all_suffixes
from typing import NamedTuple

from devrt.plugins._refs import normalized

__all__ = [
    "Distribution",
    "NamespaceModule",
    "Site",
    "distributions_by_standard_library",
    "distributions_in",
    "list_folder",
    "namespace_modules",
]


class Site(NamedTuple):
    """One folder of the path: the metadata folders and the namespace packages in it."""

    folder: str
    infos: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


class Distribution(NamedTuple):
    """An installed distribution, of which nothing is read until it is asked for.

    Attributes
    ----------
    stem : str
        Name and version as its metadata folder spells them (``"my_dist-1.0"``).
    folder : str
        The folder that its files are relative to.
    text : callable
        Returns a metadata file's text by the file's name; empty if there is none.
    """

    stem: str
    folder: str
    text: Callable[[str], str]

    @property
    def key(self) -> str:
        """The name in the spelling that all spellings are equal in."""
        return normalized(self.stem.partition("-")[0])

    def name_and_version(self) -> tuple[str, str]:
        """Return both as the metadata gives them, else as the folder's name does."""
        header = (self.text("METADATA") or self.text("PKG-INFO")).partition("\n\n")[0]
        fields = {
            key: value.strip()
            for key, found, value in (line.partition(":") for line in header.splitlines())
            if found and key in ("Name", "Version")
        }
        name, _, version = self.stem.partition("-")
        return fields.get("Name", name), fields.get("Version", version)

    def entry_points(self, groups: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """Yield group, name in lower case, and module of each entry point in ``groups``."""
        text = self.text("entry_points.txt")
        if not any(group in text for group in groups):
            return
        group = ""
        for raw in text.splitlines():
            line = raw.strip()
            if line.startswith("[") and line.endswith("]"):
                group = line.strip("[]")
            elif group in groups and line and not line.startswith(("#", ";")):
                name, separator, value = line.partition("=")
                if separator:
                    yield group, name.strip().lower(), value.split("[")[0].strip()

    def files(self) -> Iterator[str]:
        """Yield the files that the distribution says it installed, relative to its folder."""
        for line in self.text("RECORD").splitlines():
            if line.startswith('"'):
                yield line[1:].partition('",')[0].replace('""', '"')
            else:
                yield line.partition(",")[0]


def list_folder(folder: str, namespaces: Sequence[str]) -> Site:
    """List one folder of the path; empty where nothing can be installed in it."""
    infos, found = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".dist-info", ".egg-info")):
                    infos.append(entry.path)
                elif entry.name in namespaces and entry.is_dir():
                    found.append(entry.name)
    except OSError:
        return Site(folder)
    return Site(folder, tuple(sorted(infos)), tuple(found))


def distributions_in(sites: Iterable[Site]) -> Iterator[Distribution]:
    """Yield the distributions; of two with one name the earlier, as for imports."""
    seen: set[str] = set()
    for site in sites:
        for info in site.infos:
            found = Distribution(
                os.path.basename(info).rpartition(".")[0], site.folder, _reader(info)
            )
            if found.key not in seen:
                seen.add(found.key)
                yield found


def distributions_by_standard_library(folders: Sequence[str]) -> Iterator[Distribution]:
    """Yield the same by ``importlib.metadata``, which sees into archives and foreign finders."""
    from importlib.metadata import distributions

    seen: set[str] = set()
    for dist in distributions(path=list(folders)):
        name = dist.metadata["Name"] or "(unknown)"
        if normalized(name) not in seen:
            seen.add(normalized(name))

            def text(file: str, dist: object = dist) -> str:
                return getattr(dist, "read_text")(file) or ""  # noqa: B009

            stem = f"{name.replace('-', '_')}-{dist.metadata['Version'] or ''}"
            yield Distribution(stem, str(dist.locate_file("")), text)


def _reader(info: str) -> Callable[[str], str]:
    def read(name: str) -> str:
        try:
            with open(os.path.join(info, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return ""

    return read


class NamespaceModule(NamedTuple):
    """A module in a namespace package: its name there, and the folder of the path it is in."""

    name: str
    folder: str

    def owner(self, namespace: str, distributions: Iterable[Distribution]) -> Distribution | None:
        """Return the distribution that installed it, as its list of files says."""
        mine = (f"{namespace}/{self.name}/", f"{namespace}/{self.name}.")
        for dist in distributions:
            if dist.folder == self.folder and any(f.startswith(mine) for f in dist.files()):
                return dist
        return None


def namespace_modules(sites: Iterable[Site], namespace: str) -> list[NamespaceModule]:
    """Return the modules in a namespace package; as in imports, a regular package hides others."""
    portions = [site for site in sites if namespace in site.namespaces]
    for site in portions:
        if os.path.isfile(os.path.join(site.folder, namespace, "__init__.py")):
            portions = [site]
            break
    found: dict[str, NamespaceModule] = {}
    for site in portions:
        for name in sorted(_modules(os.path.join(site.folder, namespace))):
            found.setdefault(name, NamespaceModule(name, site.folder))
    return list(found.values())


def _modules(folder: str) -> Iterator[str]:
    suffixes = tuple(all_suffixes())
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                name = entry.name.partition(".")[0]
                if name.startswith("_") or not name.isidentifier():
                    continue
                is_package = os.path.isfile(os.path.join(entry.path, "__init__.py"))
                if is_package or entry.name.endswith(suffixes):
                    yield name
    except OSError:
        return
