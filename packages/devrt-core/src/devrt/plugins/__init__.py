"""Plugins: which are installed, what they say of themselves, which one is chosen and why."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
