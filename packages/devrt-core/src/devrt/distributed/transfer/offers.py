"""What a process offers to others, by number, until one has pulled it."""

from __future__ import annotations

import math
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from threading import Condition, Timer
from time import monotonic
from typing import TYPE_CHECKING, Any

from devrt._support.record import record
from devrt.distributed.faults import refused
from devrt.errors import ClosedError, DeadlineExceededError, DevrtError, StatusCode

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Block", "Lease", "Offer", "OfferedArray", "Offers"]

Shape = tuple[int, ...]
_REMEMBERED = 4096  # numbers of ended offers, for an error that says what became of them


@record(frozen=True, slots=True)
class Block:
    """A part of an array: where it begins, its shape, and what returns its elements."""

    start: Shape
    shape: Shape
    read: Callable[[], np.ndarray]

    def part(self, index: tuple[slice, ...] = ()) -> np.ndarray:
        """Return a view of a part of the elements, or of all."""
        cut: Any = (*index, ...)
        part: np.ndarray = self.read()[cut]
        return part


@record(frozen=True, slots=True)
class OfferedArray:
    """An array of an offer: its shape, the name of its dtype, and the blocks that are here."""

    shape: Shape
    dtype: str
    itemsize: int
    blocks: tuple[Block, ...]

    @property
    def nbytes(self) -> int:
        """How many bytes all blocks have."""
        return sum(math.prod(block.shape) for block in self.blocks) * self.itemsize


class Offer:
    """Arrays under a number, until they are pulled, withdrawn, or their time is over.

    Made by `devrt.experimental.transfer.TransferServer.await_pull`.
    """

    def __init__(self, offers: Offers, uuid: int, arrays: Sequence[OfferedArray]) -> None:
        self.uuid = uuid
        """The number."""
        self._offers = offers
        self._arrays: tuple[OfferedArray, ...] = tuple(arrays)
        self._end = ""  # why it is over
        self._is_leased = False
        self._timer: Timer | None = None

    @property
    def is_pulled(self) -> bool:
        """Whether another process has all of it."""
        return self._end == "was pulled"

    def wait(self, timeout: float | None = None) -> None:
        """Wait until another process has pulled the arrays.

        Parameters
        ----------
        timeout
            Seconds; as long as the offer stands when omitted.

        Raises
        ------
        DeadlineExceededError
            If nobody did in that time, or in the offer's own.
        ClosedError
            If the offer was withdrawn, or the server closed.
        """
        self._offers.wait(self, timeout)

    def withdraw(self) -> None:
        """Take the offer back; who is pulling it goes on. Does nothing when it is over."""
        self._offers.end(self, "was withdrawn")


class Lease:
    """The right to read an offer, for one that pulls it."""

    def __init__(self, offer: Offer, arrays: Sequence[OfferedArray]) -> None:
        self.key = secrets.token_hex(16)
        self.offer = offer
        self.arrays = arrays


class Offers:
    """All offers of a server; any thread may use them."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._open: dict[int, Offer] = {}
        self._ended: OrderedDict[int, str] = OrderedDict()
        self._leases: dict[str, Lease] = {}
        self._is_closed = False

    def add(self, uuid: int, arrays: Iterable[OfferedArray], seconds: float | None) -> Offer:
        """Offer arrays under a number that none that stands has."""
        made = Offer(self, uuid, tuple(arrays))
        with self._changed:
            self._check_open()
            if uuid in self._open:
                words = f"arrays are offered under uuid {uuid} already. Give each pull its own."
                raise refused(StatusCode.ALREADY_EXISTS, words, uuid=uuid)
            self._open[uuid] = made
            self._ended.pop(uuid, None)
            self._changed.notify_all()
        if seconds is not None:
            made._timer = timer = Timer(max(seconds, 0), self.end, (made, "was not pulled in time"))
            timer.daemon = True
            timer.start()
        return made

    def lease(self, uuid: int, seconds: float) -> Lease:
        """Wait for an offer that nobody else is pulling, and take a lease of it.

        Raises
        ------
        DeadlineExceededError
            If there is none after so many seconds.
        DistributedError
            If it was there, and is over.
        """
        end = monotonic() + seconds
        with self._changed:
            while (offer := self._free(uuid)) is None:
                left = end - monotonic()
                if left <= 0:
                    raise _not_offered(uuid, uuid in self._open)
                self._changed.wait(left)
            offer._is_leased = True
            made = Lease(offer, offer._arrays)
            self._leases[made.key] = made
            return made

    def find(self, key: str) -> Lease:
        """Return the lease of a key."""
        with self._changed:
            found = self._leases.get(key)
        if found is None:
            words = "this lease is not open: what it was for is over. Pull again."
            raise refused(StatusCode.NOT_FOUND, words)
        return found

    def release(self, lease: Lease, is_done: bool) -> None:
        """End a lease; what was not read whole can be pulled again."""
        with self._changed:
            if self._leases.pop(lease.key, None) is None:
                return
            if is_done:  # before another puller can lease it
                self.end(lease.offer, "was pulled")
            lease.offer._is_leased = False
            self._changed.notify_all()

    def end(self, offer: Offer, why: str) -> None:
        """Forget an offer; its number may be used again. Nothing if it is over."""
        with self._changed:
            if offer._end:
                return
            offer._end, offer._arrays = why, ()
            del self._open[offer.uuid]
            self._ended[offer.uuid] = why
            while len(self._ended) > _REMEMBERED:
                self._ended.popitem(last=False)
            self._changed.notify_all()
        if offer._timer is not None:
            offer._timer.cancel()

    def wait(self, offer: Offer, seconds: float | None) -> None:
        """Wait until an offer is over; see `Offer.wait`."""
        with self._changed:
            self._changed.wait_for(lambda: bool(offer._end), seconds)
            why = offer._end
        if why != "was pulled":
            raise _not_pulled(offer.uuid, why, seconds)

    def close(self) -> None:
        """End every offer, and take no more."""
        with self._changed:
            self._is_closed = True
            left = list(self._open.values())
            self._leases.clear()
        for offer in left:
            self.end(offer, "ended with its server")
        with self._changed:
            self._changed.notify_all()

    def _free(self, uuid: int) -> Offer | None:
        """Return the offer of a number; None if there is none yet, or another is pulling it."""
        self._check_open()
        if why := self._ended.get(uuid):
            words = f"what was offered under uuid {uuid} {why}. Offer it again to pull it again."
            raise refused(StatusCode.FAILED_PRECONDITION, words, uuid=uuid)
        offer = self._open.get(uuid)
        return None if offer is None or offer._is_leased else offer

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this transfer server is closed. Start another.")


def _not_offered(uuid: int, is_leased: bool) -> DevrtError:
    why = "another process is pulling it" if is_leased else "nothing is offered under it"
    words = f"uuid {uuid} cannot be pulled yet: {why}. Call await_pull, or allow more time."
    return refused(StatusCode.DEADLINE_EXCEEDED, words, uuid=uuid)


def _not_pulled(uuid: int, why: str, seconds: float | None) -> DevrtError:
    if why and why != "was not pulled in time":
        return ClosedError(f"what was offered under uuid {uuid} {why}.", uuid=uuid)
    spent = "in the time of the offer" if why else f"in {seconds:g} s"
    msg = f"nobody pulled what is offered under uuid {uuid} {spent}. Look at who should pull it."
    return DeadlineExceededError(msg, uuid=uuid)
