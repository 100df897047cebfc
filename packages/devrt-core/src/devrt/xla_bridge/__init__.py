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

_STATE = frozenset(
    (
        *("_alias_to_platforms", "_backend_errors", "_backend_factories", "_backends"),
        *("_default_backend", "_platform_aliases", "_topology_factories"),
    )
)
_FUNCTIONS = {
    "_clear_backends": ("devrt.runtime", "clear_backends"),
    "_discover_and_register_pjrt_plugins": ("devrt.runtime", "discover_pjrt_plugins"),
    "_get_backend_uncached": ("devrt.runtime", "get_backend"),
    "_init_backend": ("devrt.runtime", "get_backend"),
    "_get_pjrt_plugin_config": ("devrt.xla_bridge.functions", "get_pjrt_plugin_config"),
    "_get_pjrt_plugin_names_and_library_paths": (
        "devrt.xla_bridge.functions",
        "get_pjrt_plugin_names_and_library_paths",
    ),
    "_get_tpu_library_path": ("devrt.xla_bridge.functions", "get_tpu_library_path"),
}


def __getattr__(name: str) -> Any:
    if name in _STATE:
        from devrt.xla_bridge import state

        return getattr(state, name[1:])()
    if name in _FUNCTIONS:
        from importlib import import_module

        module, attribute = _FUNCTIONS[name]
        return getattr(import_module(module), attribute)
    return _exported(name)
