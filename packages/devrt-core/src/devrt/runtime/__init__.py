"""The clients that are alive, the default device, and the registry of backends."""

from devrt.runtime._default import default_runtime, set_default_runtime
from devrt.runtime._queries import (
    backends,
    backends_are_initialized,
    canonicalize_platform,
    clear_backends,
    default_backend,
    device_count,
    devices,
    expand_platform_alias,
    get_backend,
    get_device_backend,
    host_count,
    host_id,
    host_ids,
    is_gpu,
    is_known_platform,
    local_device_count,
    local_devices,
    process_count,
    process_index,
    process_indices,
)
from devrt.runtime._runtime import Runtime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.runtime._heap import heap_profile
    from devrt.runtime._pjrt import (
        backend_pjrt_c_api_version,
        make_pjrt_topology,
        make_pjrt_tpu_topology,
        using_pjrt_c_api,
    )
    from devrt.runtime._pjrt_plugins import (
        initialize_pjrt_plugin,
        load_pjrt_plugin_dynamically,
        load_pjrt_plugin_with_c_api,
        make_c_api_client,
        make_c_api_device_topology,
        pjrt_plugin_initialized,
        pjrt_plugin_loaded,
    )
    from devrt.runtime._register import (
        discover_pjrt_plugins,
        register_backend_factory,
        register_pjrt_plugin_factories_from_env,
        register_plugin,
    )

__all__ = [
    "Runtime",
    "backend_pjrt_c_api_version",
    "backends",
    "backends_are_initialized",
    "canonicalize_platform",
    "clear_backends",
    "default_backend",
    "default_runtime",
    "device_count",
    "devices",
    "discover_pjrt_plugins",
    "expand_platform_alias",
    "get_backend",
    "get_device_backend",
    "heap_profile",
    "host_count",
    "host_id",
    "host_ids",
    "initialize_pjrt_plugin",
    "is_gpu",
    "is_known_platform",
    "load_pjrt_plugin_dynamically",
    "load_pjrt_plugin_with_c_api",
    "local_device_count",
    "local_devices",
    "make_c_api_client",
    "make_c_api_device_topology",
    "make_pjrt_topology",
    "make_pjrt_tpu_topology",
    "pjrt_plugin_initialized",
    "pjrt_plugin_loaded",
    "process_count",
    "process_index",
    "process_indices",
    "register_backend_factory",
    "register_pjrt_plugin_factories_from_env",
    "register_plugin",
    "set_default_runtime",
    "using_pjrt_c_api",
]

_LATER = {
    "_heap": ("heap_profile",),
    "_pjrt": (
        *("backend_pjrt_c_api_version", "make_pjrt_topology", "make_pjrt_tpu_topology"),
        "using_pjrt_c_api",
    ),
    "_pjrt_plugins": (
        *("initialize_pjrt_plugin", "load_pjrt_plugin_dynamically", "load_pjrt_plugin_with_c_api"),
        *("make_c_api_client", "make_c_api_device_topology"),
        *("pjrt_plugin_initialized", "pjrt_plugin_loaded"),
    ),
    "_register": (
        *("discover_pjrt_plugins", "register_backend_factory", "register_plugin"),
        "register_pjrt_plugin_factories_from_env",
    ),
}
"""What a start does not need, by the module that has it."""


def __getattr__(name: str) -> object:
    for module, names in _LATER.items():
        if name in names:
            import importlib

            value = getattr(importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = value
            return value
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
