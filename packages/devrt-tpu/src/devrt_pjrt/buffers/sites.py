"""Where in a program buffers are made: noted of the large ones."""

from __future__ import annotations

import sys
from typing import Any

from devrt.contract import Frame, Traceback

__all__ = ["NOTED_BYTES", "note_site", "traceback_of"]

NOTED_BYTES = 1 << 20
"""From this size on it is noted where a buffer is made: beside its transfer that is little."""

_DEPTH = 8
_OWN = tuple(f"{name}{mark}" for name in ("devrt", "devrt_pjrt") for mark in (".", "\0"))

Site = tuple[tuple[Any, int], ...]
"""Code objects and lines, the innermost call first."""


def note_site() -> Site:
    """Return the calls outside devrt that led here."""
    found: list[tuple[Any, int]] = []
    frame = sys._getframe(1)
    at: Any = frame
    while at is not None and len(found) < _DEPTH:
        module = f"{at.f_globals.get('__name__', '')}\0"
        if found or not module.startswith(_OWN):
            found.append((at.f_code, at.f_lineno))
        at = at.f_back
    return tuple(found)


def traceback_of(site: Site | None) -> Traceback | None:
    """Return a site as the contract has it."""
    if site is None:
        return None
    return Traceback(
        tuple(
            Frame(code.co_filename, code.co_qualname, code.co_firstlineno, line)
            for code, line in site
        )
    )
