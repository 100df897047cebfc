"""Ports of this machine: one that is free, and whether one is taken."""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

__all__ = ["bound_sockets", "free_port", "is_taken"]

_TRIALS = 20


def free_port(host: str = "localhost") -> int:
    """Return a port that nothing listens at now."""
    with socket.create_server((host, 0)) as taken:
        return int(taken.getsockname()[1])


def bound_sockets(host: str, port: int) -> list[socket.socket]:
    """Return sockets bound to one port on every address of a host; of port 0, one that is free.

    Raises
    ------
    OSError
        If an address has another listener at the port, or none can be bound.
    """
    for trial in range(_TRIALS):
        try:
            return _bound(host, port)
        except OSError as error:  # a port that is free at one address may be taken at the next
            if port or error.errno != errno.EADDRINUSE or trial == _TRIALS - 1:
                raise
    raise AssertionError("the last trial returns or raises")


def _bound(host: str, port: int) -> list[socket.socket]:
    made: list[socket.socket] = []
    problem: OSError | None = None
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            made.append(_bound_to(family, (address[0], port, *address[2:])))
        except OSError as error:
            problem = error
            if error.errno == errno.EADDRINUSE:
                break
            continue  # an address that this machine has not, as ::1 where there is no IPv6
        port = made[0].getsockname()[1]
    if not made or (problem is not None and problem.errno == errno.EADDRINUSE):
        for one in made:
            one.close()
        raise problem or OSError(f"{host} has no address")
    return made


def _bound_to(family: int, address: tuple[object, ...]) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections of a service that has ended are no reason.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:  # the address of all is IPv4's, too
            with suppress(OSError):
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address[0] != "::")
        made.bind(address)
    except BaseException:
        made.close()
        raise
    return made


def is_taken(host: str, port: int) -> bool:
    """Return whether something listens at a port, on any of a host's addresses.

    gRPC takes those that are left: of the name ``localhost``, which is two addresses, clients would
    then find another program at the first.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM) if port else []
    except OSError:
        return False  # no host: what listens there will tell
    return any(_cannot_bind(family, address) for family, _, _, _, address in found)


def _cannot_bind(family: int, address: tuple[object, ...]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as trial:
            # As gRPC does: connections of a service that has ended are no reason.
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind(address)
    except OSError as error:
        return error.errno == errno.EADDRINUSE
    return False
