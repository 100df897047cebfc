"""The clients that are alive, the default device, and the registry of backends."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
