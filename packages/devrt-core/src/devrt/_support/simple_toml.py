"""The few forms of TOML that manifests mostly use, read without the standard library's reader.

That reader takes 5 of the 70 ms from `import devrt` to its devices, and nearly every start reads a
manifest. What is not in plain form here is left to it: `parse` returns None, and never
something else than it would.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["load", "parse"]

_DIGITS = frozenset("0123456789")
_HEX = _DIGITS | frozenset("abcdefABCDEF")
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_BLANK = " \t"
_MOST_DIGITS = 18  # what 64 bits hold in any case
_MOST_HEX_DIGITS = 15


class _OtherFormError(Exception):
    """A form that is not read here."""


def load(text: str) -> dict[str, Any]:
    """Return what a text says; `ValueError` where it is no TOML or has too long a number."""
    document = parse(text)
    if document is not None:
        return document
    import re
    import tomllib

    too_long = re.search(
        r"^[ \t]*([A-Za-z0-9_-]+)[ \t]*=[ \t]*[+-]?[0-9_]{4000}", text, re.MULTILINE
    )
    if too_long:  # Python refuses to read it, and would not say where it is
        msg = f"{too_long[1]} must be a number of 64 bits, and has thousands of digits"
        raise ValueError(msg)
    return tomllib.loads(text)


def parse(text: str) -> dict[str, Any] | None:
    """Return what ``tomllib.loads`` returns, or None where that has to read it."""
    document: dict[str, Any] = {}
    table = document
    try:
        for raw in text.split("\n"):
            _expect_no_control(raw)
            line = raw.strip(_BLANK)
            if line.startswith("[["):
                table = _new_table(document, line)
            elif line and not line.startswith("#"):
                key, value = _pair(line)
                if key in table:
                    return None
                table[key] = value
    except _OtherFormError:
        return None
    return document


def _expect_no_control(line: str) -> None:
    plain = line.replace("\t", "")
    if not plain.isprintable() and (min(plain) < " " or "\x7f" in plain):
        raise _OtherFormError


def _new_table(document: dict[str, Any], line: str) -> dict[str, Any]:
    """Append a table to the array that a line names, which may be in the last table of another."""
    name, closed, rest = line[2:].partition("]]")
    *parents, child = name.split(".")
    if not closed or len(parents) > 1 or not all(map(_is_bare, (*parents, child))):
        raise _OtherFormError
    _expect_end(rest)
    for parent in parents:
        document = _tables(document.get(parent))[-1]
    if child in document:
        _tables(document[child])
    made: dict[str, Any] = {}
    document.setdefault(child, []).append(made)
    return made


def _tables(value: object) -> list[dict[str, Any]]:
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return value
    raise _OtherFormError


def _is_bare(key: str) -> bool:
    return bool(key) and _BARE.issuperset(key)


def _pair(line: str) -> tuple[str, Any]:
    key, equals, rest = line.partition("=")
    key = key.rstrip(_BLANK)
    if not equals or not _is_bare(key):
        raise _OtherFormError
    value, rest = _value(rest.lstrip(_BLANK))
    _expect_end(rest)
    return key, value


def _expect_end(rest: str) -> None:
    rest = rest.lstrip(_BLANK)
    if rest and not rest.startswith("#"):
        raise _OtherFormError


def _value(text: str) -> tuple[Any, str]:
    """Return the value that a text begins with, and what follows."""
    if text.startswith('"'):
        return _text(text)
    if text.startswith("["):
        return _list(text)
    word = text.partition("#")[0].rstrip(_BLANK)
    return _word(word), text[len(word) :]


def _text(text: str) -> tuple[str, str]:
    value, closed, rest = text[1:].partition('"')
    if not text.startswith('"') or not closed or "\\" in value:
        raise _OtherFormError
    return value, rest


def _list(text: str) -> tuple[list[str], str]:
    values: list[str] = []
    rest = text[1:].lstrip(_BLANK)
    while not rest.startswith("]"):
        value, rest = _text(rest)
        values.append(value)
        rest = rest.lstrip(_BLANK)
        if rest.startswith(","):
            rest = rest[1:].lstrip(_BLANK)
        elif not rest.startswith("]"):
            raise _OtherFormError
    return values, rest[1:]


def _word(word: str) -> bool | int | float:
    if word in ("true", "false"):
        return word == "true"
    _, is_hex, digits = word.rpartition("0x")
    if is_hex and word == is_hex + digits and _HEX.issuperset(digits):
        if 0 < len(digits) <= _MOST_HEX_DIGITS:
            return int(word, 16)
        raise _OtherFormError
    whole, point, fraction = word.removeprefix("-").partition(".")
    if not _is_whole(whole):
        raise _OtherFormError
    if not point and len(whole) <= _MOST_DIGITS:
        return int(word)
    if fraction and _DIGITS.issuperset(fraction):
        return float(word)
    raise _OtherFormError


def _is_whole(digits: str) -> bool:
    return digits == "0" or (_DIGITS.issuperset(digits) and digits[:1] not in ("", "0"))
