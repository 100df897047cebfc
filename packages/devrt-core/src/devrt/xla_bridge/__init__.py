"""The names of ``jax._src.xla_bridge``, for programs that are written against them.

``from devrt import xla_bridge`` replaces ``from jax._src import xla_bridge``. The public functions
are those of `devrt.runtime`. What JAX keeps in module variables (``_backends``,
``_backend_factories``, ``_backend_errors`` ...) are copies of what the default runtime has, made at
each use: to change it, call the functions.
"""

from __future__ import annotations

from devrt._support.lazy import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_exported, __dir__, __all__ = attach(__name__)


def __getattr__(name: str) -> Any:
    if name.startswith("_") and not name.startswith("__"):
        from devrt.xla_bridge.private import value_of

        return value_of(name)
    return _exported(name)
