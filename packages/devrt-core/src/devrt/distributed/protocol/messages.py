"""Messages of the coordination service, in a pool of descriptors of their own."""

from __future__ import annotations

import base64
import functools
from typing import Any

from devrt.distributed.protocol.descriptors import FILES
from devrt.errors import DistributedError, InvalidArgumentError, StatusCode

try:  # with this module, not at the first message: processes that are forked have it then
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as _error:
    _problem: ImportError | None = _error
else:
    _problem = None

__all__ = [
    "ERROR_KEY",
    "LIMIT_KEY",
    "METHODS",
    "RESUMES_KEY",
    "SERVICE",
    "STATUS",
    "grpc_module",
    "message",
    "parsed",
]

SERVICE = "xla.coordination.CoordinationService"
STATUS = "/devrt.Coordination/Status"
"""A call of devrt's own, beside jaxlib's: the cluster as JSON."""

ERROR_KEY = "devrt-error-bin"  # metadata of the errors of devrt's service
LIMIT_KEY = "devrt-message-bytes"
"""In the answer to ``RegisterTask``: the longest message that the service takes."""
RESUMES_KEY = "devrt-resumes"
"""In the answer to ``RegisterTask`` of a service that another can carry on after."""

METHODS = (
    *("RegisterTask", "Heartbeat", "ShutdownTask", "PollForError", "WatchTasks", "GetAliveTasks"),
    *("InsertKeyValue", "GetKeyValue", "TryGetKeyValue", "IncrementKeyValue", "GetKeyValueDir"),
    *("DeleteKeyValue", "Barrier", "CancelBarrier"),
)


def grpc_module() -> Any:
    """Return gRPC's module, which is imported when a service or a client is made."""
    try:
        import grpc
        import grpc.aio
    except ImportError as error:
        raise _missing(error) from error
    return grpc


def _missing(error: ImportError) -> DistributedError:
    msg = (
        f"the coordination service needs grpcio and protobuf, and {error.name or error} could "
        "not be imported. Install devrt-core with its extra 'distributed'."
    )
    return DistributedError(msg, code=StatusCode.FAILED_PRECONDITION)


@functools.cache
def _pool(file: str) -> Any:
    if _problem is not None:
        raise _missing(_problem)

    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(base64.b64decode(FILES[file]))
    for one in files.file:
        pool.AddSerializedFile(one.SerializeToString())
    return pool


@functools.cache
def message(name: str, file: str = "coordination", package: str = "xla.coordination") -> Any:
    """Return the class of a message."""
    found = _pool(file).FindMessageTypeByName(f"{package}.{name}")  # first: it says what is missing
    return message_factory.GetMessageClass(found)


def parsed(kind: Any, data: bytes) -> Any:
    """Return the message that bytes are; raises `InvalidArgumentError` where they are none."""
    from google.protobuf.message import DecodeError

    try:
        return kind.FromString(data)
    except DecodeError as error:
        msg = f"a message of {len(data)} bytes is no {kind.DESCRIPTOR.name}: {error}."
        raise InvalidArgumentError(msg) from error
