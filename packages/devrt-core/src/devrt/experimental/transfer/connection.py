"""A connection to another process's transfer server, for pulling arrays from it."""

from __future__ import annotations

import contextlib
import datetime
import math
import numbers
import weakref
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Any

from devrt.contract import Device
from devrt.distributed.arguments import seconds
from devrt.distributed.transfer.pulling import Peer
from devrt.errors import InvalidTypeError
from devrt.experimental.transfer.landing import Incoming, IntoHost, incoming, into
from devrt.experimental.transfer.offering import check_uuid
from devrt.tree_util import tree_flatten, tree_unflatten

__all__ = ["TransferConnection", "seconds_of"]


class TransferConnection:
    """A connection to one other process; made by `TransferServer.connect`.

    Any thread may use it; pulls of several threads go on at the same time.
    """

    def __init__(self, peer: Peer, device: Callable[[], Device], wait: float) -> None:
        self._peer = peer
        self._device = device
        self._wait = wait
        self._close = weakref.finalize(self, peer.close)

    def pull(self, uuid: int, xs: Any, timeout: Any = None) -> Any:
        """Fetch a tree of arrays that the other process offers, and wait for them.

        Parameters
        ----------
        uuid
            The number that the other process gives to ``await_pull``.
        xs
            A tree of `devrt.ShapeDtypeStruct`, or of arrays like those that are pulled. Each leaf
            says what shape and dtype is expected, and where the array is to lie: by default on the
            first device of the server's client.
        timeout
            When to give up: a `datetime.datetime` as in JAX, or seconds. When omitted, the offer
            is waited for as long as this server's ``offer_timeout`` says, and the elements as long
            as they come.

        Returns
        -------
        tree of Array
            The arrays, in the structure of ``xs``.

        Raises
        ------
        InvalidArgumentError
            If shapes, dtypes or their number are others than what is offered, which stays.
        DeadlineExceededError
            If nothing is offered in time, or the other process falls silent.
        PeerLostError
            If the other process dies, or closes its server.
        ClosedError
            If this connection is closed meanwhile.
        DistributedError
            If what was offered under the number was pulled before, or the token is wrong.
        """
        return self._pull(uuid, xs, lambda leaf: incoming(leaf, self._device()), timeout)

    def pull_into(self, uuid: int, xs: Any, timeout: Any = None) -> Any:
        """Fetch a tree of arrays into memory that is there.

        Parameters
        ----------
        uuid, timeout
            As for `pull`.
        xs
            A tree of writable NumPy arrays, which are filled, and of arrays of devrt: those are
            deleted once the other process has agreed, so that their memory is free for the new
            ones that take their place.

        Returns
        -------
        tree
            The NumPy arrays themselves, and the new arrays. After an error NumPy arrays may be
            filled in part.

        Raises
        ------
        InvalidArgumentError
            As `pull`, and if a NumPy array is read-only.
        """
        return self._pull(uuid, xs, into, timeout)

    def close(self) -> None:
        """End the connection; pulls under way raise `ClosedError`. Idempotent.

        A connection that nothing refers to is closed, too.
        """
        self._close()

    def __enter__(self) -> TransferConnection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _pull(
        self, uuid: Any, xs: Any, taken: Callable[[Any], Incoming | IntoHost], timeout: Any
    ) -> Any:
        number = check_uuid(uuid)
        seconds = seconds_of(timeout)
        leaves, structure = tree_flatten(xs)
        if not leaves:
            return xs
        arrays = [taken(leaf) for leaf in leaves]
        self._fetch(number, arrays, seconds)
        return tree_unflatten(structure, [array.result() for array in arrays])

    def _fetch(
        self, uuid: int, arrays: Sequence[Incoming | IntoHost], seconds: float | None
    ) -> None:
        end = None if seconds is None else monotonic() + seconds
        described = [(array.shape, array.dtype) for array in arrays]
        wait = self._wait if seconds is None else seconds
        pull = self._peer.pull(uuid, described, wait, end)
        with contextlib.ExitStack() as stack:
            stack.callback(pull.abandon)
            regions = [
                region
                for number, (array, blocks) in enumerate(zip(arrays, pull.blocks, strict=True))
                for region in array.regions(number, blocks)
            ]
            pull.read(regions)
            pull.finish()
            stack.pop_all()


def seconds_of(timeout: Any) -> float | None:
    """Return how many seconds from now a timeout is: a time, a span, a number, or None."""
    if isinstance(timeout, datetime.datetime):
        timeout = timeout - datetime.datetime.now(timeout.tzinfo)
    if isinstance(timeout, datetime.timedelta):
        timeout = timeout.total_seconds()
    is_number = isinstance(timeout, numbers.Real) and not isinstance(timeout, bool)
    if timeout is not None and (not is_number or math.isnan(timeout)):
        msg = f"timeout must be a datetime.datetime, seconds, or None; {timeout!r} is neither."
        raise InvalidTypeError(msg, argument="timeout")
    return None if timeout is None else seconds(max(timeout, 0), "timeout")
