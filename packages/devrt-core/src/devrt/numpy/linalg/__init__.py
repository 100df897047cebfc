"""Linear algebra by NumPy's names, and those of the array API standard.

What XLA writes out itself runs on every platform; singular values and general eigenvalues are
LAPACK's and run on the CPU.
"""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
