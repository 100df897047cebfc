"""Ports of this machine: one that is free, and whether one is taken."""

from __future__ import annotations

import errno
import socket

__all__ = ["free_port", "is_taken"]


def free_port(host: str = "localhost") -> int:
    """Return a port that nothing listens at now."""
    with socket.create_server((host, 0)) as taken:
        return int(taken.getsockname()[1])


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
