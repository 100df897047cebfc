"""What is installed and whether it works, found out without being harmed by it.

Plugins are probed in child processes; a backend that is used runs in the user's own.
"""

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
