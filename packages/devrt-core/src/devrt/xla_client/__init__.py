"""The names of ``jaxlib.xla_client``, for programs that are written against them.

``from devrt import xla_client`` replaces ``from jaxlib import xla_client``. Clients made
here belong to the caller, not to the default runtime: each call makes another one.
"""

from __future__ import annotations

from devrt._support.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__)
