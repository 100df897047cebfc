"""Meshes, partition specs and shardings: how arrays lie on devices.

Nothing here moves data. Importing the package imports no NumPy and no rich.
"""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
