"""Arrays, and how values get on devices and back."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
