"""One operation of a communicator of processes at a time, and what its failure means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from devrt._support.losses import named_loss
from devrt.distributed.faults import named
from devrt.errors import DevrtError, DistributedError, InvalidArgumentError, PeerLostError

if TYPE_CHECKING:
    from devrt.distributed.collectives.host import HostCollectives

__all__ = ["Held"]


class Held:
    """One operation at a time of a communicator that is open.

    An operation that raises has ended in the middle, whatever the error: this rank may have given
    what the others take for its part in a later one.

    Parameters
    ----------
    group
        The communicator.
    what
        The operation in words, of which the first is its name.
    x
        What this rank gives, where the ranks are to compare what they ask for.
    """

    def __init__(
        self, group: HostCollectives, what: str, x: np.ndarray[Any, Any] | None = None
    ) -> None:
        self._group = group
        self._what = what
        self._x = x

    def __enter__(self) -> None:
        self._group._lock.acquire()
        try:
            self._group._enter(self._what)
        except BaseException:
            self._group._lock.release()
            raise
        try:
            different = self._compared()
        except BaseException as error:
            self._end(error)
            raise
        if different is not None:  # in every rank: they are in step
            self._end(None)
            raise different

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._end(error)

    def _compared(self) -> InvalidArgumentError | None:
        x = self._x
        if x is None or not self._group._checks:
            return None
        return self._group._difference(f"{self._what} of shape {x.shape} and dtype {x.dtype}")

    def _end(self, error: BaseException | None) -> None:
        group = self._group
        try:
            if group._watched is not None and isinstance(error, PeerLostError):
                error = self._explained(error)
                raise error from error.__cause__
        finally:
            if error is not None:
                group._note_failure(error)
            group._since = None
            group._lock.release()

    def _explained(self, error: PeerLostError) -> DevrtError:
        """Return the error with who is lost; another one if the job has lost no process."""
        group = self._group
        client, processes = group._watched or (None, ())
        found = named_loss(error, client, processes, group._left())
        if found is not None:
            return found
        others = [process for rank, process in enumerate(processes) if rank != group.rank]
        where = f"{'one of ' * (len(others) > 1)}{named(others)}"
        msg = (
            f"{error.message} The job knows of no lost process: the communicator was closed in "
            f"{where}, as an operation of it ended in the middle there, or the connection ended. "
            "Look at the errors there, and connect another one in every process."
        )
        return DistributedError(msg, code=error.code, operation=self._what.split()[0])
