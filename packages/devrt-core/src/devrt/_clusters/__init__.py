"""What starts the processes of a job, as its variables show it; the doctor and bring-up read it."""

from __future__ import annotations

from devrt._clusters.checks import bound_address, check_joinable
from devrt._clusters.detection import (
    SeenCluster,
    address_of,
    cluster_named,
    number_of,
    seen_clusters,
    settings,
)
from devrt._clusters.logins import check_no_login
from devrt._clusters.membership import NEEDED, Membership, membership

__all__ = [
    "NEEDED",
    "Membership",
    "SeenCluster",
    "address_of",
    "bound_address",
    "check_joinable",
    "check_no_login",
    "cluster_named",
    "membership",
    "number_of",
    "seen_clusters",
    "settings",
]
