"""What holds a backend to the contract: its imports, and the cases of the conformance kit."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
