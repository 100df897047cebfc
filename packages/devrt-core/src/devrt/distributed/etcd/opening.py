"""The store of a job whose address names an etcd cluster, opened as the user that is given."""

from __future__ import annotations

import os

from devrt.distributed.engines import Location
from devrt.distributed.etcd.store import EtcdStore
from devrt.distributed.etcd.tokens import Login
from devrt.distributed.security import Security
from devrt.errors import InvalidArgumentError

__all__ = ["opened"]

_USER, _PASSWORD = "DEVRT_ETCD_USER", "DEVRT_ETCD_PASSWORD"


def opened(location: Location, security: Security, patience: float) -> EtcdStore:
    """Return the store that an address names; calls try its members for so many seconds.

    Raises
    ------
    InvalidArgumentError
        If a user is given without a password, or the other way round.
    """
    return EtcdStore(location.hosts, location.prefix, security, patience, _login(security))


def _login(security: Security) -> Login | None:
    """Return the user that is given, or set by variables."""
    user = security.etcd_user or os.environ.get(_USER)
    password = security.etcd_password or os.environ.get(_PASSWORD)
    if user and password:
        return Login(user, password)
    if not user and not password:
        return None
    has, lacks = ("user", "password") if user else ("password", "user")
    msg = (
        f"a {has} of etcd is given without a {lacks}. Give etcd_user and etcd_password, or set "
        f"{_USER} and {_PASSWORD}."
    )
    raise InvalidArgumentError(msg)
