"""Layouts and formats under JAX's name; they are those of `devrt.layout`."""

from __future__ import annotations

from devrt.layout import Format, Layout

__all__ = ["Format", "Layout"]
