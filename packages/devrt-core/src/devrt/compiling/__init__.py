"""What every client that compiles StableHLO decides in the same way."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
