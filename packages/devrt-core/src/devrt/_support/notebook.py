"""What is shown in notebooks, where there is no terminal."""

from __future__ import annotations

import importlib
import sys
from typing import Any

__all__ = ["notebook_display"]


def notebook_display() -> Any:
    """Return IPython's module of what can be displayed where this is a notebook; else None."""
    ipython = sys.modules.get("IPython")
    shell = ipython and ipython.get_ipython()
    if not getattr(shell, "kernel", None):
        return None
    return importlib.import_module("IPython.display")
