"""Processes that act as one job: keys, barriers and heartbeats through a coordination service."""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
