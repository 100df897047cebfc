"""Addresses that have a password in them: refused, since addresses are logged and shown."""

from __future__ import annotations

from devrt.errors import InvalidArgumentError

__all__ = ["check_no_login"]


def check_no_login(address: str, name: str) -> None:
    """Refuse an address such as ``etcd://user:password@host``, and do not repeat it.

    Raises
    ------
    InvalidArgumentError
        If there is a user in it.
    """
    hosts = address.rpartition("://")[2].partition("/")[0]
    if "@" in hosts:
        msg = (
            f"{name} has a user or a password in it, and addresses are logged. Give etcd_user and "
            "etcd_password, or set DEVRT_ETCD_USER and DEVRT_ETCD_PASSWORD."
        )
        raise InvalidArgumentError(msg)
