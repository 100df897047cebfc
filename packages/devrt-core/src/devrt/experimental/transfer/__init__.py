"""Arrays that one process pulls from another, by JAX's names."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
