"""The service of a job, whichever engine its address names."""

from __future__ import annotations

from devrt.distributed.arguments import count, positive_seconds, text
from devrt.distributed.cluster import Limits
from devrt.distributed.engines import check_security, location_of
from devrt.distributed.etcd.opening import opened
from devrt.distributed.jaxlib_service import JaxlibService
from devrt.distributed.security import Bounds, Security
from devrt.distributed.service import DistributedRuntimeService
from devrt.distributed.stored.service import StoredService
from devrt.errors import InvalidArgumentError

__all__ = ["AnyService", "begun"]

_PATIENCE = 30.0  # seconds that an etcd which does not answer is tried
AnyService = DistributedRuntimeService | StoredService | JaxlibService


def begun(
    address: str,
    num_nodes: int,
    limits: Limits,
    recoverable: bool,
    allow_remote: bool,
    security: Security,
    bounds: Bounds | None = None,
    journal: str | None = None,
) -> AnyService:
    """Start a service; parameters are those of `get_distributed_runtime_service`."""
    location = location_of(text(address, "address"))
    positive_seconds(limits.heartbeat, "heartbeat_timeout")
    num_nodes = count(num_nodes, "num_nodes")
    if journal is not None and location.engine != "embedded":
        msg = f"a journal is of a service at host:port, and the address is {address!r}."
        raise InvalidArgumentError(msg, address=address)
    check_security(location, security)
    if location.engine == "etcd":
        store = opened(location, security, min(_PATIENCE, limits.heartbeat, limits.register))
        return StoredService(address, store, num_nodes, limits, recoverable)
    where = location.hosts[0]
    if location.engine == "jaxlib":
        return JaxlibService(where, num_nodes, limits, recoverable, allow_remote, security)
    return DistributedRuntimeService(
        where, num_nodes, limits, recoverable, allow_remote, security, bounds, journal
    )
