"""The abstract classes that a backend implements.

A Python backend subclasses them; a native backend registers its classes with
``Client.register(...)`` and is held to the same members by the conformance kit.
"""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
