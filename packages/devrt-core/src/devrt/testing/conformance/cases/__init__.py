"""The cases of the conformance kit, one module for each subject."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from typing import Any

from devrt.testing.conformance.case import LEVELS, Case, check_level

__all__ = ["CaseList", "all_cases", "library_cases"]


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """Return every case, by level, then by module, then as they stand there."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    modules = [importlib.import_module(f"{__name__}.{name}") for name in names]
    # A module's helpers may be imported by another one, its cases are its own.
    found = [
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, Case) and value.check.__module__ == module.__name__
    ]
    return tuple(sorted(found, key=lambda case: LEVELS.index(case.level)))


@functools.cache
def library_cases() -> tuple[Case, ...]:
    """Return the cases of PJRT libraries alone, which the installed loader of them brings."""
    from devrt.records import Unavailable
    from devrt.runtime import default_runtime

    loader = default_runtime().plugins.pjrt_loader()
    return () if isinstance(loader, Unavailable) else tuple(loader.conformance_cases())


class CaseList:
    """The cases of one level, or of all, as a list to print."""

    ok = True

    def __init__(self, level: str | None = None) -> None:
        check_level(level)
        known = (*all_cases(), *library_cases())
        self.cases = [case for case in known if level in (None, case.level)]

    def to_dict(self) -> dict[str, Any]:
        """Return the list as JSON has it."""
        names = ("id", "title", "contract", "deadline", "alone")
        return {"cases": [{n: getattr(case, n) for n in names} for case in self.cases]}
