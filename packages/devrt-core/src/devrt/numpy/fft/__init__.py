"""Fourier transforms by NumPy's names, and those of the array API standard.

They are computed in the precision of their operand: those of float32 in complex64.
"""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
