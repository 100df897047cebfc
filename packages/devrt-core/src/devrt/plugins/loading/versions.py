"""Whether a version is among those that a specifier names (``">=1.2,<2"``)."""

from __future__ import annotations

import re

__all__ = ["is_specifier", "matches"]

_CLAUSE = re.compile(r"\s*(===?|~=|!=|<=|>=|<|>)\s*(v?\d[\w.!+*-]*)\s*")
_RELEASE = re.compile(r"v?(?:\d+!)?(\d+(?:\.\d+)*)")


def is_specifier(text: str) -> bool:
    """Return whether ``text`` is a version specifier; an empty one, which all match, is."""
    return not text.strip() or all(_CLAUSE.fullmatch(part) for part in text.split(","))


def matches(version: str, specifier: str) -> bool:
    """Return whether a version matches every clause of a specifier.

    With package ``packaging`` installed, exactly as pip understands both. Without it the numbers
    of the release alone are compared: a pre-release counts as the release it leads to.
    """
    if not specifier.strip():
        return True
    try:
        from packaging.specifiers import InvalidSpecifier, SpecifierSet
        from packaging.version import InvalidVersion
    except ImportError:
        return _matches_release(version, specifier)
    try:
        return SpecifierSet(specifier).contains(version, prereleases=True)
    except (InvalidSpecifier, InvalidVersion):
        return _matches_release(version, specifier)


def _matches_release(version: str, specifier: str) -> bool:
    return all(_matches_clause(version, part) for part in specifier.split(","))


def _matches_clause(version: str, clause: str) -> bool:
    found = _CLAUSE.fullmatch(clause)
    have, wanted = _release(version), _release(found.group(2)) if found else None
    if found is None or have is None or wanted is None:
        return False
    operator = found.group(1)
    if found.group(2).endswith(".*"):
        equal = have[: len(wanted)] == wanted
        return equal if operator.startswith("=") else not equal
    if operator == "~=":
        return have >= wanted and have[: len(wanted) - 1] == wanted[:-1]
    width = max(len(have), len(wanted))
    left, right = (numbers + (0,) * (width - len(numbers)) for numbers in (have, wanted))
    return {
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
        "!=": left != right,
    }.get(operator, left == right)


def _release(version: str) -> tuple[int, ...] | None:
    found = _RELEASE.match(version.strip())
    return tuple(int(number) for number in found.group(1).split(".")) if found else None
