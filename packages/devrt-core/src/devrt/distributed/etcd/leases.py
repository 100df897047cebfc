"""Leases at etcd."""

from __future__ import annotations

import math

from devrt.distributed.etcd.endpoints import Endpoints, etcd_message
from devrt.distributed.faults import refused
from devrt.distributed.store import Lease
from devrt.errors import DistributedError, StatusCode

__all__ = ["EtcdLease"]


class EtcdLease(Lease):
    """A lifetime of keys; any process may renew it that knows its number.

    Parameters
    ----------
    endpoints
        The members.
    number
        The lease's.
    seconds
        Its time.
    """

    def __init__(self, endpoints: Endpoints, number: int, seconds: float) -> None:
        self._endpoints = endpoints
        self.number = number
        self._seconds = seconds

    @classmethod
    def granted(cls, endpoints: Endpoints, seconds: float) -> EtcdLease:
        """Return a new one: etcd counts whole seconds, and raises those that are too few."""
        request = etcd_message("LeaseGrantRequest")(TTL=max(1, math.ceil(seconds)))
        answer = endpoints.call("Lease/LeaseGrant", request)
        return cls(endpoints, answer.ID, answer.TTL)

    def renew(self) -> None:
        """Begin its time anew.

        Raises
        ------
        DistributedError
            With the code ``NOT_FOUND`` if it has ended.
        """
        request = etcd_message("LeaseKeepAliveRequest")(ID=self.number)
        answer = self._endpoints.ask("Lease/LeaseKeepAlive", request, self._seconds / 3)
        if answer.TTL <= 0:
            words = f"the lease of {self._seconds:g} s has ended: nobody renewed it. Make another."
            raise refused(StatusCode.NOT_FOUND, words)

    def revoke(self) -> None:
        """End it now, and with it its keys. Idempotent."""
        request = etcd_message("LeaseRevokeRequest")(ID=self.number)
        try:
            self._endpoints.call("Lease/LeaseRevoke", request)
        except DistributedError as error:
            if error.code is not StatusCode.NOT_FOUND:
                raise
