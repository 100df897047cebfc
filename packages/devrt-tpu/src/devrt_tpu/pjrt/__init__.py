"""Any plugin with the PJRT C API, as a devrt client.

Importing this package loads its native module, and no plugin.
"""

from devrt._compile_options import CompileOptions
from devrt_tpu.pjrt._buffer import PjrtBuffer
from devrt_tpu.pjrt._client import PjrtClient
from devrt_tpu.pjrt._custom_call import DeviceCall, RawBuffer
from devrt_tpu.pjrt._device import PjrtDevice, PjrtMemory
from devrt_tpu.pjrt._event import Event
from devrt_tpu.pjrt._executable import Executable, MemoryAnalysis, PjrtLoadedExecutable
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
