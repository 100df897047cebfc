"""What the processes of a job compare by: checksums, through the keys that every job has."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from devrt.distributed.collectives.through_store import StoreCollectives

if TYPE_CHECKING:
    from devrt.contract import DistributedRuntimeClient

__all__ = ["Comparison"]

_SECONDS = 300.0


class Comparison:
    """A comparison of values between all processes of a job, each of which makes it.

    Parameters
    ----------
    client
        The connection to the job's keys.
    process, size
        Which of how many processes this is.
    """

    def __init__(self, client: DistributedRuntimeClient, process: int, size: int) -> None:
        self._job = client, process, size

    def __call__(self, operation: str, x: Any) -> list[int]:
        """Return the processes that have other bytes than this one; see `Job`."""
        return self._group.compare(operation, x)

    @functools.cached_property
    def _group(self) -> StoreCollectives:
        client, process, size = self._job
        made = StoreCollectives(client, process, size, "compared", _SECONDS)
        made.watch(client, range(size))
        return made
