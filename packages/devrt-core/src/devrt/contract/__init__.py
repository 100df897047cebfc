"""The abstract classes that a backend implements.

A Python backend subclasses them; a native backend registers its classes with
``Client.register(...)`` and is held to the same members by the conformance kit.
"""

from devrt.contract._buffer import Buffer, HostBufferSemantics
from devrt.contract._client import Client
from devrt.contract._device import Device, Memory
from devrt.contract._distributed import (
    CpuCollectives,
    DistributedRuntimeClient,
    TransferServerInterfaceFactory,
)
from devrt.contract._executable import LoadedExecutable
from devrt.contract._exporter import BufferExporter
from devrt.contract._nulls import refuse_nulls
from devrt.contract._read_only import read_only
from devrt.contract._streams import (
    execution_stream_id,
    get_execution_stream_id,
    set_execution_stream_id,
)
from devrt.contract._topology import Topology
from devrt.contract._traceback import Frame, Traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt._custom_calls import DeviceCall, RawBuffer
    from devrt.contract._assembly import Assembly, Piece

__all__ = [
    "Assembly",
    "Buffer",
    "BufferExporter",
    "Client",
    "CpuCollectives",
    "Device",
    "DeviceCall",
    "DistributedRuntimeClient",
    "Frame",
    "HostBufferSemantics",
    "LoadedExecutable",
    "Memory",
    "Piece",
    "RawBuffer",
    "Topology",
    "Traceback",
    "TransferServerInterfaceFactory",
    "execution_stream_id",
    "get_execution_stream_id",
    "read_only",
    "refuse_nulls",
    "set_execution_stream_id",
]


def __getattr__(name: str) -> object:
    """Bring in what a start does not need."""
    if name in ("DeviceCall", "RawBuffer"):
        from devrt import _custom_calls

        return getattr(_custom_calls, name)
    if name in ("Assembly", "Piece"):
        from devrt.contract import _assembly

        return getattr(_assembly, name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
