"""Python functions as graphs of operations, and graphs as StableHLO: what `devrt.jit` is made of.

Knows shapes, dtypes and meshes' axes, but neither arrays nor clients.
"""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
