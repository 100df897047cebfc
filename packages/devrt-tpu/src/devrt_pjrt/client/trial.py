"""A client of a library in a child process, which tries what the environment says of it."""

from __future__ import annotations

from typing import Any

from devrt_pjrt.client.make_client import make_client
from devrt_pjrt.library.library import open_library

__all__ = ["use"]


def use(path: str, **options: Any) -> None:
    """Make a library read its environment, which ends the process or has no effect here."""
    make_client(open_library("trial", path), "trial", options)
