"""What lies in the folders of ``sys.path``: distributions and namespace packages, read once.

Each folder is listed once, and of each distribution only ``entry_points.txt`` is opened; its
``METADATA`` and ``RECORD`` are read where it turns out to bring a plugin.
"""

from __future__ import annotations

import os
from importlib.machinery import all_suffixes

from devrt._support.record import record
from devrt.plugins.discovery.refs import normalized

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

__all__ = [
    "Distribution",
    "NamespaceModule",
    "Site",
    "distributions_by_library",
    "distributions_in",
    "find_module",
    "list_folder",
    "namespace_modules",
]


@record(frozen=True, slots=True)
class Site:
    """One folder of the path: the metadata folders and the namespace packages in it."""

    folder: str
    infos: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()


@record(frozen=True, slots=True)
class Distribution:
    """An installed distribution, of which nothing is read until it is requested.

    ``stem`` is name and version as its metadata folder spells them (``"my_dist-1.0"``), and
    ``folder`` what its files are relative to. ``text`` returns a metadata file's text.
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
            stem = os.path.basename(info).rpartition(".")[0]
            found = Distribution(stem, site.folder, _reader(info))
            if found.key not in seen:
                seen.add(found.key)
                yield found


def find_module(name: str) -> ModuleSpec | None:
    """Return where a top module is, as the import system's finders say; nothing is imported."""
    import importlib.util

    try:
        return importlib.util.find_spec(name)
    except Exception as error:  # a foreign finder may fail in any way
        from devrt.errors import ForkedError  # a listing imports it for this alone

        if isinstance(error, ForkedError):  # of this process, not of the module
            raise
        return None


def _metadata_of(dist: Any) -> Any:
    try:
        return dist.metadata or {}  # None where there is none to read
    except Exception as error:  # a foreign finder's distribution may fail in any way
        from devrt.errors import ForkedError  # a listing imports it for this alone

        if isinstance(error, ForkedError):  # of this process, not of the distribution
            raise
        return {}


def distributions_by_library(folders: Sequence[str]) -> Iterator[Distribution]:
    """Yield the same by the standard library, which sees into archives and foreign finders."""
    from importlib import metadata as library

    seen: set[str] = set()
    for dist in library.distributions(path=list(folders)):
        metadata = _metadata_of(dist)
        name = metadata.get("Name") or "(unknown)"
        if normalized(name) not in seen:
            seen.add(normalized(name))

            def text(file: str, dist: Any = dist) -> str:
                try:
                    return dist.read_text(file) or ""
                except UnicodeDecodeError:  # one damaged file must not hide the others
                    return ""

            stem = f"{name.replace('-', '_')}-{metadata.get('Version') or ''}"
            yield Distribution(stem, str(dist.locate_file("")), text)


def _reader(info: str) -> Callable[[str], str]:
    def read(name: str) -> str:
        try:
            # Unbuffered and decoded here: in half of the time that a text file takes.
            with open(f"{info}{os.sep}{name}", "rb", buffering=0) as file:
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text

    return read


@record(frozen=True, slots=True)
class NamespaceModule:
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
