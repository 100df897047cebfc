"""The conformance kit: cases that hold a backend to the contract, each run in a child process."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
