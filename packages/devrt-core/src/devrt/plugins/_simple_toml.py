"""The few forms of TOML that manifests mostly use, read without the standard library's reader.

That reader takes several milliseconds to import, and nearly every start reads a manifest. What is
not in plain form here is left to it: `parse` returns None, and never something else than it would.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["load", "parse"]

_TEXT = r'"[^"\\\n]*"'
_LINE = re.compile(
    r"[ \t]*(?:"
    r"\[\[(?P<table>[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)?)\]\]"
    r"|(?P<key>[A-Za-z0-9_-]+)[ \t]*=[ \t]*(?:"
    rf"(?P<text>{_TEXT})"
    r"|(?P<word>true|false)"
    r"|(?P<float>-?(?:0|[1-9][0-9]*)\.[0-9]+)"
    r"|(?P<hex>0x[0-9A-Fa-f]{1,15})"
    r"|(?P<int>-?(?:0|[1-9][0-9]{0,17}))"
    rf"|(?P<list>\[[ \t]*(?:{_TEXT}[ \t]*(?:,[ \t]*{_TEXT}[ \t]*)*,?[ \t]*)?\])"
    r"))?[ \t]*(?:#[^\n]*)?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_TOO_LONG = re.compile(r"^[ \t]*([A-Za-z0-9_-]+)[ \t]*=[ \t]*[+-]?[0-9_]{4000}", re.MULTILINE)


def load(text: str) -> dict[str, Any]:
    """Return what a text says; `ValueError` where it is no TOML or has too long a number."""
    document = parse(text)
    if document is not None:
        return document
    too_long = _TOO_LONG.search(text)
    if too_long:  # Python refuses to read it, and would not say where it is
        msg = f"{too_long[1]} must be a number of 64 bits, and has thousands of digits"
        raise ValueError(msg)
    import tomllib

    return tomllib.loads(text)


def parse(text: str) -> dict[str, Any] | None:
    """Return what ``tomllib.loads`` returns, or None where that has to be asked."""
    if _CONTROL.search(text):
        return None
    document: dict[str, Any] = {}
    table = document
    for line in text.split("\n"):
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        if found["table"]:
            new = _new_table(document, found["table"])
            if new is None:
                return None
            table = new
        elif found["key"]:
            if found["key"] in table:
                return None
            table[found["key"]] = _value(found)
    return document


def _new_table(document: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Append a table to the array of that name; None where the name is something else already."""
    parent, _, child = name.rpartition(".")
    if parent:
        parents: Any = document.get(parent)
        if not _is_tables(parents):
            return None
        document = parents[-1]
    if child in document and not _is_tables(document[child]):
        return None
    made: dict[str, Any] = {}
    document.setdefault(child, []).append(made)
    return made


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _value(found: re.Match[str]) -> Any:
    if found["text"] is not None:
        return found["text"][1:-1]
    if found["list"] is not None:
        return [text[1:-1] for text in re.findall(_TEXT, found["list"])]
    if found["word"]:
        return found["word"] == "true"
    if found["float"]:
        return float(found["float"])
    return int(found["hex"], 16) if found["hex"] else int(found["int"])
