"""What the doctor finds in the variables by which processes become one job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from devrt._clusters import (
    Membership,
    SeenCluster,
    check_joinable,
    membership,
    seen_clusters,
)
from devrt.doctor.findings import Finding
from devrt.errors import InvalidArgumentError

__all__ = ["SeenJob", "cluster_findings", "seen_job"]

SeenJob = tuple[Membership, tuple[SeenCluster, ...]]
"""What `devrt.distributed.initialize` would use, and every cluster that is seen."""


def seen_job(environ: Mapping[str, str]) -> SeenJob:
    """Return what some variables say of the job that this process belongs to."""
    seen = seen_clusters(environ)
    return membership(cluster=next(iter(seen), None), environ=environ), seen


def cluster_findings(job: SeenJob) -> Iterator[Finding]:
    """Yield what is wrong with what is seen, and what is missing to join a job."""
    found = job[0]
    subject = found.cluster.title if found.cluster is not None else "environment"
    for problem in found.problems:
        yield Finding("cluster-malformed", subject, problem)
    if not found.missing and not found.problems:
        try:
            check_joinable(found)
        except InvalidArgumentError as error:
            yield Finding("cluster-malformed", subject, error.message)
    if found.values and found.missing and not found.problems:
        yield Finding(
            "cluster-incomplete",
            subject,
            f"devrt.distributed.initialize() without arguments would fail: {found.why_missing()}",
        )
