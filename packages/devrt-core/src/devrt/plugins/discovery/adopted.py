"""Plugins that were made for JAX or XLA, used as they are: their PJRT library is found by name.

Their modules are never imported. What has to be known of single distributions is data, in
``data/adopted.toml``; what other modules register is found out by
`devrt.plugins.adoption.recording`, in a child process, once an answer
depends on it. Neither ``re`` nor ``fnmatch`` is used here nor in what is imported: they take longer
to import than a listing takes.
"""

from __future__ import annotations

import os

from devrt._support import simple_toml
from devrt._support.record import record
from devrt.plugins.discovery.refs import FROM_TABLE, UNNAMED, PluginRef, normalized
from devrt.plugins.discovery.sources import Distribution, Site, namespace_modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

__all__ = ["GROUPS", "NAMESPACE", "AdoptedTable", "adopted_plugins", "adopted_table"]

GROUPS = ("jax_plugins", "xla_plugins")
NAMESPACE = "jax_plugins"

_TABLE = os.path.join(os.path.dirname(__file__), "data", "adopted.toml")
_DEPTH = 3
_OWN_KEYS = ("distributions", "library")


@record(frozen=True, slots=True)
class AdoptedTable:
    """What ``data/adopted.toml`` says.

    ``patterns`` are file names of PJRT libraries, the most telling first; ``loader_advice`` is what
    to do where no plugin can load such a library; ``rows`` are the tables by distribution.
    """

    patterns: tuple[str, ...]
    loader_advice: str
    rows: Mapping[str, Mapping[str, Any]]

    @property
    def loader_remedy(self) -> str:
        """What to do where no plugin can load such a library, as a sentence."""
        from devrt.contract.installation import how_to_install, loader_wheel  # only where none can

        return self.loader_advice.format(command=how_to_install(loader_wheel()))

    def backend(self, distribution: str) -> dict[str, Any] | None:
        """Return what a manifest would say of a distribution's backend; None if nothing."""
        row = self.rows.get(normalized(distribution))
        return None if row is None else {k: v for k, v in row.items() if k not in _OWN_KEYS}


_parsed: list[AdoptedTable] = []


def adopted_table() -> AdoptedTable:
    """Return the table, parsed at the first call."""
    if not _parsed:
        with open(_TABLE, encoding="utf-8") as file:
            document = simple_toml.parse(file.read())
        assert document is not None  # the file is this package's own
        rows = {name: row for row in document["adopted"] for name in row["distributions"]}
        patterns = tuple(document["patterns"])
        advice = document["loader_advice"]
        _parsed.append(AdoptedTable(patterns, advice, rows))
    return _parsed[0]


def adopted_plugins(
    sites: Sequence[Site],
    distributions: Sequence[Distribution],
    points: Sequence[Sequence[tuple[str, str, str]]],
) -> Iterator[PluginRef]:
    """Yield the plugins made for JAX or XLA, each with its library or with why it has none.

    ``points`` are the entry points of each distribution: group, name, module.
    """
    folders = [site.folder for site in sites]
    named: set[str] = set()
    for dist, mine in zip(distributions, points, strict=True):
        theirs = sorted(
            (point for point in mine if point[0] in GROUPS), key=lambda p: GROUPS.index(p[0])
        )
        named |= {module for _, _, module in theirs}
        yield from _of_distribution(dist, theirs, folders)
    for module in namespace_modules(sites, NAMESPACE):
        dotted = f"{NAMESPACE}.{module.name}"
        if dotted not in named:
            owner = module.owner(NAMESPACE, distributions)
            source = f"namespace package ({NAMESPACE})"
            yield _ref(owner, module.name.lower(), dotted, source, [module.folder])


def _of_distribution(
    dist: Distribution, points: Sequence[tuple[str, str, str]], folders: Sequence[str]
) -> Iterator[PluginRef]:
    seen: set[tuple[str, str]] = set()
    for group, platform, module in points:
        ref = _ref(dist, platform, module, f"entry point ({group})", folders)
        if (ref.platform, ref.library) not in seen:  # a module may be advertised to both groups
            seen.add((ref.platform, ref.library))
            yield ref
    if not points and dist.key in adopted_table().rows:
        ref = _ref(dist, "", "", FROM_TABLE, ())
        if ref.library:
            yield ref


def _ref(
    dist: Distribution | None, platform: str, module: str, source: str, folders: Sequence[str]
) -> PluginRef:
    name, version = dist.name_and_version() if dist is not None else ("(namespace)", "")
    table = adopted_table()
    row = table.rows.get(normalized(name), {})
    platform = str(row.get("platform", platform))
    library = _find_library(dist, module, folders, row, table.patterns)
    problem = "" if library else _no_library(name, module, table.patterns)
    if not platform:
        platform, problem = UNNAMED, f"the entry point of {name} for {module!r} has no name"
    is_global = bool(row.get("global_symbols"))
    entry = "" if row else module  # what the table has a row of is known
    return PluginRef(
        platform, name, version, "", source, library, "", problem, is_global, entry=entry
    )


def _no_library(distribution: str, module: str, patterns: Iterable[str]) -> str:
    return (
        f"no PJRT library was found among the files of {distribution}, which advertises "
        f"{module!r} (looked for {', '.join(patterns)})"
    )


def _find_library(
    dist: Distribution | None,
    module: str,
    folders: Sequence[str],
    row: Mapping[str, Any],
    patterns: Sequence[str],
) -> str:
    if dist is not None:
        declared = os.path.join(dist.folder, str(row.get("library", "")))
        if os.path.isfile(declared):
            return declared
        library = _best((os.path.join(dist.folder, file) for file in dist.files()), patterns)
        if library:
            return library
    parts = module.partition(":")[0].split(".")
    for folder in folders if module else ():
        package = os.path.join(folder, *parts)
        if os.path.isdir(package):
            return _best(_files_below(package, _DEPTH), patterns)
    return ""


def _best(files: Iterable[str], patterns: Sequence[str]) -> str:
    """Return the existing file that the earliest pattern matches; empty if there is none."""
    ranked = sorted(
        (rank, file)
        for file in files
        for rank, pattern in enumerate(patterns)
        if is_like(os.path.basename(file), pattern)
    )
    return next((file for _, file in ranked if os.path.isfile(file)), "")


def is_like(name: str, pattern: str) -> bool:
    """Return whether a name is like a pattern, in which ``*`` alone has a meaning."""
    start, *parts = pattern.split("*")
    if not parts:
        return name == pattern
    *inner, end = parts
    if not name.startswith(start) or len(name) < len(start) + len(end) or not name.endswith(end):
        return False
    rest = name[len(start) : len(name) - len(end)]
    for part in filter(None, inner):
        _, found, rest = rest.partition(part)
        if not found:
            return False
    return True


def _files_below(folder: str, depth: int) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.is_file():
            yield entry.path
        elif depth > 1 and entry.is_dir():
            yield from _files_below(entry.path, depth - 1)
