"""The ``devrt`` command."""

from devrt.cli._main import main

__all__ = ["main"]
