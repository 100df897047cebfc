"""Operations as compilers know them, loops and branches: by `jax.lax`'s names.

They are stricter than `devrt.numpy`: operands of one call have one dtype, and shapes broadcast no
further than scalars and dimensions of size 1. Python's numbers take the dtype of the others.
"""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
