"""The ``devrt`` command."""

from devrt.cli.commands import main

__all__ = ["main"]
