"""What a running coordination service says of its job, to one that is no process of it."""

from __future__ import annotations

import json
from typing import Any

from devrt.distributed import channel
from devrt.distributed.engines import Location, check_security, location_of
from devrt.distributed.etcd.opening import opened
from devrt.distributed.protocol.messages import STATUS, grpc_module
from devrt.distributed.security import Security
from devrt.distributed.stored.service import status_of
from devrt.errors import DistributedError, StatusCode

__all__ = ["read_status"]


def read_status(address: str, security: Security, seconds: float = 10) -> dict[str, Any]:
    """Return the processes of a job, its waits and refused calls, as `status` of its service.

    Raises
    ------
    DistributedError
        If no service answers there, it is not devrt's, or it refuses.
    """
    location = location_of(address)
    check_security(location, security)
    if location.engine == "etcd":
        return _stored(location, security, seconds)
    address = location.hosts[0]
    with channel.opened(address, security, compress=False) as opened_channel:
        call = opened_channel.unary_unary(STATUS)
        try:
            answer = call(b"", timeout=seconds, metadata=security.metadata)
        except grpc_module().RpcError as error:
            raise _error(address, error) from error
    found: dict[str, Any] = json.loads(answer)
    return found


def _stored(location: Location, security: Security, seconds: float) -> dict[str, Any]:
    store = opened(location, security, seconds)
    try:
        return status_of(store)
    finally:
        store.close()


def _error(address: str, error: Any) -> DistributedError:
    code = StatusCode(int(error.code().value[0]))
    advice = {
        StatusCode.UNAVAILABLE: "Look whether the job runs, and whether the address is right.",
        StatusCode.UNIMPLEMENTED: "It is not devrt's: jaxlib's service tells nothing of its job.",
    }.get(code, "")
    details = f": {error.details().rstrip('.')}" if error.details() else ""
    msg = f"{code.name}: the coordination service at {address} gave no status{details}. {advice}"
    return DistributedError(msg.strip(), code=code, address=address)
