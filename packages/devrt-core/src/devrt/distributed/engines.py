"""Which engine an address names: ``host:port``, ``jaxlib://host:port``, ``etcd://a,b,c/prefix``."""

from __future__ import annotations

import re

from devrt._clusters import check_no_login
from devrt._support.record import record
from devrt.distributed.security import Security, bound_address
from devrt.errors import InvalidArgumentError

__all__ = ["Location", "check_security", "location_of"]

_PREFIX = re.compile(r"[\w.@:=+-]+(/[\w.@:=+-]+)*")
_ETCD_PORT = 2379


@record(frozen=True, slots=True)
class Location:
    """Where the processes of a job meet.

    Parameters
    ----------
    engine
        ``"embedded"``, ``"jaxlib"`` or ``"etcd"``.
    hosts
        Each ``host:port``; all but etcd have one.
    prefix
        What the names of the job's keys begin with at etcd.
    """

    engine: str
    hosts: tuple[str, ...]
    prefix: str = ""

    @property
    def has_free_port(self) -> bool:
        """Whether the service chooses its port."""
        return bound_address(self.hosts[0])[1] == 0


def location_of(address: str) -> Location:
    """Return the engine that an address names, and where it is.

    Raises
    ------
    InvalidArgumentError
        If it is no address.
    """
    check_no_login(address, "the address of a coordination service")
    scheme, found, rest = address.rpartition("://")
    if scheme == "etcd":
        return _etcd(address, rest)
    if found and scheme != "jaxlib":
        msg = (
            f"{address!r} names no engine of coordination. Give it as host:port, "
            "jaxlib://host:port or etcd://host:port,.../prefix."
        )
        raise InvalidArgumentError(msg, address=address)
    bound_address(rest)
    return Location(scheme or "embedded", (rest,))


def _etcd(address: str, rest: str) -> Location:
    hosts, _, prefix = rest.partition("/")
    found = [host if _has_port(host) else f"{host}:{_ETCD_PORT}" for host in hosts.split(",")]
    if not hosts or not all(hosts.split(",")) or not _PREFIX.fullmatch(prefix):
        msg = (
            f"{address!r} is no address of a job in etcd. Give it as etcd://host:port,.../prefix, "
            "with a prefix that no other job has."
        )
        raise InvalidArgumentError(msg, address=address)
    for host in found:
        bound_address(host)
    return Location("etcd", tuple(found), prefix)


def _has_port(host: str) -> bool:
    return ":" in host.rpartition("]")[2]


def check_security(location: Location, security: Security) -> None:
    """Refuse what an engine does not know.

    Raises
    ------
    InvalidArgumentError
        If something is given that only another engine checks.
    """
    if location.engine != "etcd":
        if security.etcd_user or security.etcd_password:
            msg = (
                f"etcd_user and etcd_password are for etcd, and the address is "
                f"{location.hosts[0]!r}. Leave them out, or give etcd://host:port,.../prefix."
            )
            raise InvalidArgumentError(msg, address=location.hosts[0])
        return
    if security.token is not None or security.mtls_peer_uri_prefix is not None:
        msg = (
            "token and mtls_peer_uri_prefix are the embedded service's. Who may use etcd, etcd "
            "decides: give etcd_user and etcd_password, or certificates."
        )
        raise InvalidArgumentError(msg)
