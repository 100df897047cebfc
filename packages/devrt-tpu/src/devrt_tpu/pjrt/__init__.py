"""Any plugin with the PJRT C API, as a devrt client.

Importing this package loads its native module, and no plugin.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devrt._compile_options import CompileOptions
    from devrt._custom_calls import DeviceCall, RawBuffer
    from devrt_tpu.pjrt._buffer import PjrtBuffer
    from devrt_tpu.pjrt._client import PjrtClient
    from devrt_tpu.pjrt._compiled import Executable, MemoryAnalysis
    from devrt_tpu.pjrt._device import PjrtDevice, PjrtMemory
    from devrt_tpu.pjrt._event import Event
    from devrt_tpu.pjrt._executable import PjrtLoadedExecutable
    from devrt_tpu.pjrt._library import Library
    from devrt_tpu.pjrt._make_client import make_client
    from devrt_tpu.pjrt._names import (
        add_library,
        initialize_pjrt_plugin,
        library_for,
        load_pjrt_plugin_dynamically,
        load_pjrt_plugin_with_c_api,
        loaded_library,
        pjrt_plugin_initialized,
        pjrt_plugin_loaded,
    )
    from devrt_tpu.pjrt._topology import PjrtTopology, deserialize_topology, make_topology
    from devrt_tpu.pjrt._transfer import TransferManager

__all__ = [
    "CompileOptions",
    "DeviceCall",
    "Event",
    "Executable",
    "Library",
    "MemoryAnalysis",
    "PjrtBuffer",
    "PjrtClient",
    "PjrtDevice",
    "PjrtLoadedExecutable",
    "PjrtMemory",
    "PjrtTopology",
    "RawBuffer",
    "TransferManager",
    "add_library",
    "deserialize_topology",
    "initialize_pjrt_plugin",
    "library_for",
    "load_pjrt_plugin_dynamically",
    "load_pjrt_plugin_with_c_api",
    "loaded_library",
    "make_client",
    "make_topology",
    "pjrt_plugin_initialized",
    "pjrt_plugin_loaded",
]

# A start that only makes a client needs a few of these modules.
_MODULES = {
    name: module
    for module, names in (
        ("devrt._compile_options", "CompileOptions"),
        ("devrt_tpu.pjrt._buffer", "PjrtBuffer"),
        ("devrt_tpu.pjrt._client", "PjrtClient"),
        ("devrt_tpu.pjrt._compiled", "Executable MemoryAnalysis"),
        ("devrt._custom_calls", "DeviceCall RawBuffer"),
        ("devrt_tpu.pjrt._device", "PjrtDevice PjrtMemory"),
        ("devrt_tpu.pjrt._event", "Event"),
        ("devrt_tpu.pjrt._executable", "PjrtLoadedExecutable"),
        ("devrt_tpu.pjrt._library", "Library"),
        ("devrt_tpu.pjrt._make_client", "make_client"),
        ("devrt_tpu.pjrt._names", "add_library initialize_pjrt_plugin library_for"),
        ("devrt_tpu.pjrt._names", "load_pjrt_plugin_dynamically load_pjrt_plugin_with_c_api"),
        ("devrt_tpu.pjrt._names", "loaded_library pjrt_plugin_initialized pjrt_plugin_loaded"),
        ("devrt_tpu.pjrt._topology", "PjrtTopology deserialize_topology make_topology"),
        ("devrt_tpu.pjrt._transfer", "TransferManager"),
    )
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value = globals()[name] = getattr(import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
