"""What no process can join a job with; the doctor finds it, and bring-up refuses it."""

from __future__ import annotations

from devrt._clusters.membership import NEEDED, Membership
from devrt.errors import InvalidArgumentError

__all__ = ["bound_address", "check_joinable"]

_ETCD = "etcd://"


def bound_address(address: str, what: str = "coordination service") -> tuple[str, int]:
    """Return the host and the port of ``host:port``."""
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        msg = f"{address!r} is no address of a {what}. Give it as host:port."
        raise InvalidArgumentError(msg, address=address)
    if ":" in host and not host.startswith("["):
        msg = f"{address!r} is no address of a {what}: write [{host}]:{port}."
        raise InvalidArgumentError(msg, address=address)
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not inner or "[" in inner or "]" in inner:
        msg = f"{address!r} is no address of a {what}: one of IPv6 is [::1]:{port}, for example."
        raise InvalidArgumentError(msg, address=address)
    return inner, int(port)


def check_joinable(found: Membership) -> None:
    """Refuse numbers and an address that are no job's, or that no other process could know.

    Raises
    ------
    InvalidArgumentError
        If they are.
    """
    address, size, process = (found.values[name] for name in NEEDED)
    if not 0 <= process < size:
        msg = (
            f"process_id is {process} ({found.sources['process_id']}) and num_processes {size} "
            f"({found.sources['num_processes']}): ids are 0 to the number of processes - 1."
        )
        raise InvalidArgumentError(msg, process=process)
    if address.startswith(_ETCD):
        return
    _, port = bound_address(address.removeprefix("jaxlib://"))
    if port == 0 and size > 1:
        msg = f"coordinator_address {address!r} has no port that other processes could know."
        raise InvalidArgumentError(msg, address=address)
