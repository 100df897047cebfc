"""Data exchanged between the processes of a job: one interface over several engines."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
