"""Reading a plugin's ``devrt.toml``, without importing the plugin, and what is wrong with it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devrt._support import simple_toml
from devrt._support.record import fields, record
from devrt.errors import PluginContractError
from devrt.plugins.discovery.adopted import adopted_table
from devrt.plugins.discovery.refs import PluginRef
from devrt.plugins.discovery.sources import find_module
from devrt.plugins.loading import api_version as _api_version
from devrt.plugins.loading.manifest import (
    BackendManifest,
    Conflict,
    Driver,
    EnvironmentVariable,
    Requirement,
)

__all__ = ["MANIFEST_NAME", "SCHEMA_VERSION", "manifest_path", "parse_manifest", "read_manifest"]

MANIFEST_NAME = "devrt.toml"
SCHEMA_VERSION = 1
MAX_BYTES = 1 << 16
_MAX_SECONDS, _MAX_TEXT = 1e6, 255  # what every system can wait, and every file name have

_REQUIREMENTS = ("path", "library", "pci_vendor")


def read_manifest(ref: PluginRef, refs: Iterable[PluginRef] = ()) -> BackendManifest | None:
    """Return what a plugin's distribution says of its platform; None if it has no manifest.

    Nothing is imported: the import system's finders find the package's folder. For a library that
    was not made for devrt, devrt's own table speaks. A backend that is none of ``refs`` would count
    for nothing, and is refused. Raises `PluginContractError`, which names the file and the key.
    """
    if ref.library:
        row = adopted_table().backend(ref.distribution)
        return None if row is None else _Reader(ref, "adopted.toml").backend(row, "a table")
    path = manifest_path(ref)
    if path is None:
        return None
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # reading a FIFO or /dev/zero would not end
            raise _invalid(ref, path, "it is no regular file")
        if status.st_size > MAX_BYTES:
            what = f"it has {status.st_size} bytes, and at most {MAX_BYTES} are read"
            raise _invalid(ref, path, what)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise _invalid(ref, path, f"it cannot be read: {error}") from error
    backends = parse_manifest(text, ref, path)
    _check_served(ref, path, backends, refs)
    return next((b for b in backends if b.platform == ref.platform), None)


def _check_served(
    ref: PluginRef, path: str, backends: Sequence[BackendManifest], refs: Iterable[PluginRef]
) -> None:
    """Refuse a manifest with a backend that no entry point of its package is called like."""
    names = {backend.platform for backend in backends} - {ref.platform}
    if not names or not (refs := tuple(refs)):
        return
    served = sorted({r.platform for r in (ref, *refs) if r.module and manifest_path(r) == path})
    for index, backend in enumerate(backends):
        if backend.platform not in served:
            what = (
                f"backend[{index}] is of platform {backend.platform!r}, and the entry points of "
                f"its package are called {', '.join(map(repr, served))}; the two names must be the "
                "same"
            )
            raise _invalid(ref, path, what)


def parse_manifest(
    text: str, ref: PluginRef, path: str | os.PathLike[str]
) -> tuple[BackendManifest, ...]:
    """Read and check the text of a manifest.

    Raises `PluginContractError` if it is not valid TOML, not of this schema, or has a key or value
    that is not allowed.
    """
    try:
        document = simple_toml.load(text)
    except (ValueError, RecursionError) as error:
        raise _invalid(ref, path, f"it is no TOML: {error}") from error
    reader = _Reader(ref, path, _newest(document))
    schema = document.get("schema")
    if type(schema) is int and schema > SCHEMA_VERSION:
        raise _later_schema(ref, path, schema)
    reader.check_keys(document, ("schema", "backend"), "the manifest")
    if schema != SCHEMA_VERSION:
        raise reader.invalid(f"schema must be {SCHEMA_VERSION}, not {_shown(schema)}")
    tables = reader.tables(document, "backend", "the manifest")
    if len(tables) == 1:
        tables[0].setdefault("platform", ref.platform)
    backends = tuple(
        reader.backend(table, f"backend[{index}]") for index, table in enumerate(tables)
    )
    platforms = [backend.platform for backend in backends]
    for platform in platforms:
        if platforms.count(platform) > 1:
            raise reader.invalid(f"it has two backends of platform {platform!r}")
    return backends


def manifest_path(ref: PluginRef) -> str | None:
    """Return where a plugin's manifest is, found without an import; None if it has none."""
    top, *rest = ref.module.split(".")
    if not top:
        return None
    spec = find_module(top)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        package = os.fspath(folder)
        for part in rest:
            if os.path.isfile(os.path.join(package, "__init__.py")):
                break
            package = os.path.join(package, part)
        path = os.path.join(package, MANIFEST_NAME)
        if os.path.lexists(path):  # what is no file is refused when it is read
            return path
    return None


def _invalid(ref: PluginRef, path: str | os.PathLike[str], what: str) -> PluginContractError:
    msg = f"the manifest {os.fspath(path)} of plugin {ref} is not valid: {what}."
    return PluginContractError(
        msg,
        phase="manifest",
        path=os.fspath(path),
        **ref.facts(),
    )


def _later_schema(ref: PluginRef, path: str | os.PathLike[str], schema: int) -> PluginContractError:
    """Return the error for a manifest that only a later devrt can read."""
    remedy = _api_version.remedy(ref, "devrt-core")
    msg = (
        f"the manifest {os.fspath(path)} of plugin {ref} cannot be read by this devrt-core: its "
        f"schema must be {SCHEMA_VERSION}, not {_shown(schema)}, which is a later one. {remedy}"
    )
    facts: dict[str, Any] = {"path": os.fspath(path), **ref.facts()}
    return PluginContractError(msg, phase="manifest", remedy=remedy, upgrade="devrt-core", **facts)


def _newest(document: Mapping[str, Any]) -> str | int | None:
    """Return the contract that a manifest's backends were built against, if devrt is older."""
    tables = document.get("backend", ())
    given = [t.get("api_version") for t in tables if isinstance(t, dict)]
    return next(filter(_api_version.is_newer, given), None)


def _shown(value: object) -> str:
    try:
        text = ascii(value)
    except ValueError:  # an integer with more digits than Python writes
        return "a number with thousands of digits"
    return text if len(text) <= 80 else f"{text[:80]}..."


@record(frozen=True, slots=True)
class _Reader:
    """Turns tables into records, and says of which file and key an error is."""

    ref: PluginRef
    path: str | os.PathLike[str]
    newer: str | int | None = None  # a contract that it was built against and devrt does not know

    def invalid(self, what: str) -> PluginContractError:
        if self.newer is not None:
            why = f"this devrt cannot read its manifest {os.fspath(self.path)}: {what}"
            return _api_version.too_new(self.ref, self.newer, why)
        return _invalid(self.ref, self.path, what)

    def check_keys(self, table: Mapping[str, Any], known: Sequence[str], where: str) -> None:
        for key in table:
            if key not in known:
                import difflib

                near = difflib.get_close_matches(key, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise self.invalid(f"{where} has no key {key!r}; {hint}keys: {', '.join(known)}")

    def tables(self, table: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
        value = table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.invalid(f"{key} of {where} must be an array of tables, [[{key}]]")
        return value

    def record(self, kind: type[Any], table: Mapping[str, Any], where: str, **given: Any) -> Any:
        types = {name: written for name, written, _ in fields(kind)}
        self.check_keys(table, tuple(types), where)
        values = {
            key: self.value(value, types[key], f"{where}.{key}")
            for key, value in table.items()
            if key not in given
        }
        missing = [
            name
            for name, _, is_optional in fields(kind)
            if not is_optional and name not in values | given
        ]
        if missing:
            raise self.invalid(f"{where} lacks {', '.join(missing)}")
        return kind(**values, **given)

    def value(self, value: Any, kind: str, where: str) -> Any:
        if kind == "tuple[str, ...]" and isinstance(value, list):
            if all(isinstance(item, str) and item for item in value):
                return tuple(value)
        elif kind.startswith("float"):
            if type(value) in (int, float) and 0 < value <= _MAX_SECONDS:
                return float(value)
        elif kind == "int" and type(value) is int:
            if -(1 << 63) <= value < 1 << 63:
                return value
        elif kind == "str | int":
            if _api_version.is_version(value):
                return value
        elif type(value).__name__ == kind:
            return value
        raise self.invalid(f"{where} must be {_KINDS[kind]}, not {_shown(value)}")

    def backend(self, table: dict[str, Any], where: str) -> BackendManifest:
        readers = {
            "requires": self.requirement,
            "conflicts": self.conflict,
            "drivers": self.driver,
            "environment": self.variable,
        }
        nested = {
            key: tuple(
                read(item, f"{where}.{key}[{index}]")
                for index, item in enumerate(self.tables(table, key, where))
            )
            for key, read in readers.items()
        }
        made: BackendManifest = self.record(BackendManifest, table, where, **nested)
        for name in (made.platform, *made.aliases):
            if name != name.lower() or not name:
                raise self.invalid(f"{where}: the name {name!r} must be in lower case")
        return made

    def driver(self, table: dict[str, Any], where: str) -> Driver:
        made: Driver = self.record(Driver, _listed(table), where)
        if not made.path or not (made.minimum or made.maximum):
            raise self.invalid(f"{where} needs a path, and a minimum or a maximum")
        for key in ("minimum", "maximum"):
            if (text := getattr(made, key)) and not _is_driver_version(text):
                what = f"numbers with dots, such as '525.60', not {_shown(text)}"
                raise self.invalid(f"{where}.{key} must be {what}")
        self.check_texts(where, path=made.path, after=(made.after,), unless_set=made.unless_set)
        return made

    def variable(self, table: dict[str, Any], where: str) -> EnvironmentVariable:
        made: EnvironmentVariable = self.record(EnvironmentVariable, table, where)
        if not made.name.isidentifier() or not made.about.strip():
            what = "needs the name of a variable, and about: what it is read for"
            raise self.invalid(f"{where} {what}")
        return made

    def requirement(self, table: dict[str, Any], where: str) -> Requirement:
        if not any(table.get(key) not in (None, "", []) for key in _REQUIREMENTS):
            raise self.invalid(f"{where} needs one of {', '.join(_REQUIREMENTS)}")
        made: Requirement = self.record(Requirement, _listed(table), where)
        self.check_texts(where, path=made.path, library=made.library, unless_set=made.unless_set)
        if "pci_vendor" in table and not 0 <= made.pci_vendor <= 0xFFFF:
            raise self.invalid(f"{where}.pci_vendor must be a number of 16 bits")
        return made

    def check_texts(self, where: str, **texts: Sequence[str]) -> None:
        what = f"printable text of at most {_MAX_TEXT} characters"
        for key, text in ((key, text) for key, values in texts.items() for text in values):
            if len(text) > _MAX_TEXT or not text.isprintable():
                raise self.invalid(f"{where}.{key} must be {what}, not {_shown(text)}")

    def conflict(self, table: dict[str, Any], where: str) -> Conflict:
        from devrt.plugins.loading.versions import is_specifier

        made: Conflict = self.record(Conflict, table, where)
        if len(made.versions) > _MAX_TEXT or not is_specifier(made.versions):
            what = f"a version specifier of at most {_MAX_TEXT} characters, such as '>=1,<2'"
            raise self.invalid(f"{where}.versions must be {what}, not {_shown(made.versions)}")
        if made.severity not in ("error", "warning"):
            what = f"'error' or 'warning', not {_shown(made.severity)}"
            raise self.invalid(f"{where}.severity must be {what}")
        self.check_texts(where, id=(made.id,))
        if "," in made.id or made.id != made.id.strip():
            raise self.invalid(f"{where}.id must have no comma and no blank at its ends")
        return made


def _listed(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table in which one text stands for a list of one where there may be several."""
    several = ("path", "library", "unless_set")
    return {
        key: [value] if key in several and isinstance(value, str) else value
        for key, value in table.items()
    }


def _is_driver_version(text: str) -> bool:
    parts = text.split(".")
    return len(text) <= _MAX_TEXT and all(p.isascii() and p.isdigit() for p in parts)


_KINDS = {
    "tuple[str, ...]": "a list of strings",
    "float | None": f"a number above zero, at most {_MAX_SECONDS:.0f} seconds",
    "int": "an integer of 64 bits",
    "bool": "true or false",
    "str | int": 'a version in quotes, such as "1.0"',
    "str": "a string",
}
