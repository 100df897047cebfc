"""The service of a job, whichever engine its address names."""

from __future__ import annotations

from devrt.distributed.cluster import Limits
from devrt.distributed.engines import check_etcd_security, location_of
from devrt.distributed.etcd.store import EtcdStore
from devrt.distributed.jaxlib_service import JaxlibService
from devrt.distributed.security import Security
from devrt.distributed.service import DistributedRuntimeService
from devrt.distributed.stored.service import StoredService

__all__ = ["AnyService", "begun"]

AnyService = DistributedRuntimeService | StoredService | JaxlibService


def begun(
    address: str,
    num_nodes: int,
    limits: Limits,
    recoverable: bool,
    allow_remote: bool,
    security: Security,
) -> AnyService:
    """Start a service; parameters are those of `get_distributed_runtime_service`."""
    location = location_of(address)
    if location.engine == "etcd":
        check_etcd_security(security)
        store = EtcdStore(location.hosts, location.prefix, security, limits.heartbeat)
        return StoredService(address, store, num_nodes, limits, recoverable)
    made = JaxlibService if location.engine == "jaxlib" else DistributedRuntimeService
    return made(location.hosts[0], num_nodes, limits, recoverable, allow_remote, security)
