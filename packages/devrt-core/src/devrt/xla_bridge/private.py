"""JAX's names of the registry that begin with an underscore, which programs use all the same."""

from __future__ import annotations

from typing import Any

from devrt import runtime
from devrt.xla_bridge import functions, state

__all__ = ["value_of"]

_FUNCTIONS = {
    "_clear_backends": runtime.clear_backends,
    "_discover_and_register_pjrt_plugins": runtime.discover_pjrt_plugins,
    "_get_backend_uncached": runtime.get_backend,
    "_init_backend": runtime.get_backend,
    "_get_pjrt_plugin_config": functions.get_pjrt_plugin_config,
    "_get_pjrt_plugin_names_and_library_paths": functions.get_pjrt_plugin_names_and_library_paths,
    "_get_tpu_library_path": functions.get_tpu_library_path,
}


def value_of(name: str) -> Any:
    """Return what a name stands for: a function, or what the default runtime has now.

    Raises
    ------
    AttributeError
        If devrt has nothing for it.
    """
    if name in _FUNCTIONS:
        return _FUNCTIONS[name]
    if name[1:] in state.__all__:
        return getattr(state, name[1:])()
    msg = f"module 'devrt.xla_bridge' has no attribute {name!r}"
    raise AttributeError(msg)
