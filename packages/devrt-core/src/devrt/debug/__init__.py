"""Looking into traced functions, by `jax.debug`'s names."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
