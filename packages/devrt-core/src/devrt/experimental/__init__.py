"""What JAX has under ``jax.experimental``, as far as devrt has it, by the same names."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
