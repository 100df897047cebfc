r"""``PJRT_NAMES_AND_LIBRARY_PATHS``: PJRT libraries that the environment names.

The value is a list of entries ``name:path`` with commas between them (``name;path`` on Windows).
Only the first colon of an entry separates, so that a path may hold more of them. A comma in a path
is written ``\,``, or the path is put in double quotes, in which a quote is written twice. A path
that ends in ``.json`` is a configuration file, an object with ``library_path``,
``create_options``, ``global_symbols`` and ``experimental``.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from devrt.errors import ConfigError
from devrt.plugins.discovery.refs import ENVIRONMENT_VARIABLE, FROM_ENVIRONMENT, UNNAMED, PluginRef

__all__ = [
    "Entry",
    "LibraryConfig",
    "Problem",
    "check_options",
    "parse_entries",
    "plugins_in",
    "read_config",
]

SEPARATOR = ";" if os.name == "nt" else ":"
MAX_BYTES = 1 << 16

_NAME = re.compile(r"[^\s@,:;\"'\\/]+")
_FLAGS = ("global_symbols", "experimental")
_OPTION_KINDS = "a string, an integer, a list of integers, a number, true or false"


class Entry(NamedTuple):
    """One library: the platform's name in lower case, and the path as it was written."""

    name: str
    path: str


class LibraryConfig(NamedTuple):
    """What a configuration file says: the library, its options, how it is opened and offered."""

    library: str
    options: dict[str, Any]
    global_symbols: bool
    experimental: bool


class Problem(NamedTuple):
    """An entry that cannot be used: its place, from 1, its text, and what is wrong with it.

    The name is the platform's; empty where that cannot be read.
    """

    number: int
    text: str
    what: str
    name: str = ""

    def sentence(self, separator: str = SEPARATOR) -> str:
        """Return which entry is wrong, in what, and the form that is accepted."""
        return (
            f"entry {self.number} of {ENVIRONMENT_VARIABLE}, {self.text!r}, {self.what}; "
            f"an entry is name{separator}path, with a comma between entries, and a path that "
            "holds a comma stands in double quotes"
        )


def parse_entries(
    text: str, separator: str = SEPARATOR
) -> tuple[tuple[Entry, ...], tuple[Problem, ...]]:
    """Return the entries of the value that can be used, and the problems of the others."""
    entries: dict[str, Entry] = {}
    problems = []
    for number, raw in enumerate(_split(text, separator) if text.strip() else (), 1):
        found = _entry(raw, separator)
        if isinstance(found, Entry) and found.name in entries:
            found = f"repeats the name {found.name!r}", found.name
        if isinstance(found, Entry):
            entries[found.name] = found
        else:
            problems.append(Problem(number, raw.strip(), *found))
    return tuple(entries.values()), tuple(problems)


def _split(text: str, separator: str) -> list[str]:
    """Split at the commas that are neither escaped nor in quotes."""
    parts = [""]
    at, in_path, in_quotes = 0, False, False
    while at < len(text):
        character = text[at]
        if in_quotes:
            in_quotes = character != '"'  # a doubled quote closes and opens again
        elif character == ",":
            parts.append("")
            in_path = False
            at += 1
            continue
        elif character == separator:
            in_path = True
        elif in_path and text[at : at + 2] == "\\,":
            parts[-1] += "\\"
            at, character = at + 1, ","
        elif character == '"' and in_path:
            in_quotes = _opens_quotes(parts[-1], separator)
        parts[-1] += character
        at += 1
    return parts


def _opens_quotes(before: str, separator: str) -> bool:
    path = before.partition(separator)[2].strip()
    return not path or path.startswith('"')


def _entry(raw: str, separator: str) -> Entry | tuple[str, str]:
    """Return an entry, or what is wrong with it and its name, empty if it has none."""
    name, found, path = (part.strip() for part in raw.partition(separator))
    if not name and not found:
        return "is empty", ""
    before, equals, _ = name.partition("=")
    if equals and _NAME.fullmatch(before):
        return f"has '=' where {separator!r} belongs", before.lower()
    if not _NAME.fullmatch(name):
        return f"has no platform's name before the first {separator!r}", ""
    name = name.lower()
    if not found:
        return f"has no {separator!r} and no path", name
    if path.startswith('"'):
        inside = re.fullmatch(r'"((?:[^"]|"")*)"', path)
        if inside is None:
            return "has a path whose quotes do not end where the entry does", name
        path = inside.group(1).replace('""', '"')
    else:
        path = path.replace("\\,", ",")
    return Entry(name, path) if path else ("has no path", name)


def plugins_in(text: str) -> tuple[PluginRef, ...]:
    """Return the plugins that the variable's value names, the malformed with what is wrong."""
    entries, problems = parse_entries(text)
    found = [_ref(entry) for entry in entries]
    found += [_named(p.name or UNNAMED, problem=p.sentence()) for p in problems]
    return tuple(found)


def _ref(entry: Entry) -> PluginRef:
    if not entry.path.endswith(".json"):
        return _named(entry.name, library=entry.path)
    try:
        found = read_config(entry.path)
    except ConfigError as error:
        return _named(entry.name, config=entry.path, problem=error.message.rstrip("."))
    return _named(
        entry.name,
        library=found.library,
        config=entry.path,
        global_symbols=found.global_symbols,
        experimental=found.experimental,
    )


def _named(platform: str, **known: Any) -> PluginRef:
    return PluginRef(platform, "(environment)", source=FROM_ENVIRONMENT, **known)


def read_config(path: str) -> LibraryConfig:
    """Read a configuration file of a PJRT library; `ConfigError` if it is not valid."""
    import json

    if os.path.exists(path) and not os.path.isfile(path):
        raise _invalid(path, "it is no file")  # a pipe would be waited for
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise _invalid(path, f"it is longer than {MAX_BYTES} bytes")
        document = json.loads(data, object_pairs_hook=_unique)
    except OSError as error:
        raise _invalid(path, f"it cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise _invalid(path, f"it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise _invalid(path, f"it holds {type(document).__name__}, not an object")
    _check_keys(path, document)
    library = document.get("library_path")
    if not isinstance(library, str) or not library:
        raise _invalid(path, f"library_path must be the path of a library, not {library!r}")
    is_global, is_experimental = (_flag(path, document, key) for key in _FLAGS)
    options = document.get("create_options")
    try:
        options = check_options({} if options is None else options)
        return LibraryConfig(library, options, is_global, is_experimental)
    except ConfigError as error:
        raise _invalid(path, f"create_options: {error.message.rstrip('.')}") from error


def _flag(path: str, document: Mapping[str, Any], key: str) -> bool:
    value = document.get(key, False)
    if not isinstance(value, bool):
        raise _invalid(path, f"{key} must be true or false, not {value!r}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(k for k in keys if keys.count(k) > 1)!r} is there twice")
    return found


def _check_keys(path: str, document: Mapping[str, Any]) -> None:
    known = ("library_path", "create_options", *_FLAGS)
    for key in document:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise _invalid(path, f"it has no key {key!r}; {hint}keys: {', '.join(known)}")


def check_options(options: Any) -> dict[str, Any]:
    """Return options as a new dictionary; `ConfigError` where PJRT takes none such."""
    if not isinstance(options, Mapping):
        msg = f"options are a mapping from names to values, not {type(options).__name__}."
        raise ConfigError(msg, value=options)
    for name, value in options.items():
        if not isinstance(name, str) or not name:
            raise ConfigError(f"an option's name is a string, not {name!r}.", option=name)
        if not _is_option(value):
            msg = f"option {name!r} must be {_OPTION_KINDS}, not {value!r}."
            raise ConfigError(msg, option=name, value=value)
    return dict(options)


def _is_option(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    if isinstance(value, float):
        return value - value == 0  # neither infinite nor undefined
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return isinstance(value, str)


def _invalid(path: str, what: str) -> ConfigError:
    msg = f"the configuration file {path!r} of a PJRT library is not valid: {what}."
    return ConfigError(msg, path=path)
