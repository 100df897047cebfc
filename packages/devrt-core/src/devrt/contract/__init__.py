"""The abstract classes that a backend implements.

A Python backend subclasses them; a native backend registers its classes with
``Client.register(...)`` and is held to the same members by the conformance kit.
"""

from devrt.contract.buffer import Buffer, HostBufferSemantics
from devrt.contract.client import Client
from devrt.contract.device import Device, Memory
from devrt.contract.distributed import (
    CpuCollectives,
    DistributedRuntimeClient,
    TransferServerInterfaceFactory,
)
from devrt.contract.executable import LoadedExecutable
from devrt.contract.exporter import BufferExporter
from devrt.contract.nulls import refuse_nulls
from devrt.contract.read_only import read_only
from devrt.contract.streams import (
    execution_stream_id,
    get_execution_stream_id,
    set_execution_stream_id,
)
from devrt.contract.topology import Topology
from devrt.contract.traceback import Frame, Traceback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from devrt.contract.assembly import Assembly, Piece
    from devrt.contract.custom_calls import DeviceCall, RawBuffer
    from devrt.contract.pjrt_loader import PjrtLoader

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
    "PjrtLoader",
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
        from devrt.contract import custom_calls

        return getattr(custom_calls, name)
    if name in ("Assembly", "Piece"):
        from devrt.contract import assembly

        return getattr(assembly, name)
    if name == "PjrtLoader":
        from devrt.contract.pjrt_loader import PjrtLoader

        return PjrtLoader
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
