"""Objects of a vendor's package that are named as ``"module:name"``, and imported when needed."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["resolve"]


def resolve(reference: str) -> Any:
    """Return what a reference names; the first time imports its module."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
