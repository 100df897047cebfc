"""Random numbers from explicit keys, by JAX's names; of the same key they are JAX's.

A function draws from the key that it is given and changes no state: the same key gives the same
numbers. `split` makes more keys of one.
"""

from __future__ import annotations

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
