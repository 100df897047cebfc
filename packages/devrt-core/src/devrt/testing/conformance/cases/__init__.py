"""The cases of the conformance kit, one module for each subject."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from devrt.testing.conformance.case import LEVELS, Case

__all__ = ["all_cases"]


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
