"""The side that has what is pulled: answers requests for what it offers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from devrt._support.record import record
from devrt.distributed.faults import refused
from devrt.distributed.quota import Rate
from devrt.distributed.security import Security
from devrt.distributed.transfer.budget import Budget
from devrt.distributed.transfer.frames import (
    MOST_REGIONS,
    PROTOCOL,
    FrameError,
    Op,
    Stream,
    error_record,
)
from devrt.distributed.transfer.listening import Listener
from devrt.distributed.transfer.offers import Block, Lease, OfferedArray, Offers
from devrt.errors import DevrtError, StatusCode

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PullServer", "TransferBounds"]

Answer = tuple[dict[str, Any], list["np.ndarray"]]
_OK = 0
_CALLER = 0  # of a connection's own rate
_HELLO_BYTES = 16 << 10
_LONGEST_WAIT = 5.0  # then the client asks again: so a thread outlives its client by that


@record(frozen=True, slots=True)
class TransferBounds:
    """What others may take up of a transfer server, and how long they may be silent.

    Parameters
    ----------
    message_bytes
        The longest request, elements not counted.
    connections
        How many connections may be open at each address; each has a thread.
    stall_seconds
        How long the other side may take for the next byte; then it counts as lost.
    copied_bytes
        How much of what is being sent may be copies, which are made of elements that do not lie
        in the order in which they were requested; further requests wait.
    requests_per_second
        How many requests one connection may make; further ones are refused.
    least_bytes_per_second
        How fast the other side must take elements, on the average of a request; one that does not
        is ended, so that nobody holds this process's memory by reading slowly.
    """

    message_bytes: int = 1 << 20
    connections: int = 256
    stall_seconds: float = 60.0
    copied_bytes: int = 1 << 30
    requests_per_second: float = 10_000
    least_bytes_per_second: float = 64 << 10


class PullServer:
    """Serves offers at some addresses, a thread for each connection.

    Parameters
    ----------
    addresses
        ``host:port`` of the first connection, then those of further ones for elements.
    security, allow_remote, bounds
        Who may connect, and what they may take up.
    request_bytes
        The most elements that one request may ask for, in bytes.
    """

    def __init__(
        self,
        addresses: Sequence[str],
        security: Security,
        allow_remote: bool,
        bounds: TransferBounds,
        request_bytes: int,
    ) -> None:
        self.offers = Offers()
        self._security, self._bounds = security, bounds
        self._request_bytes = request_bytes
        self._copies = Budget(bounds.copied_bytes)
        self._lock = Lock()
        self._refused = 0
        self._listeners: list[Listener] = []
        try:
            for address in addresses:
                self._listeners.append(
                    Listener(
                        address,
                        allow_remote,
                        security,
                        self,
                        bounds.connections,
                        bounds.stall_seconds,
                    )
                )
        except BaseException:
            self.close()
            raise

    @property
    def address(self) -> str:
        """Where to connect."""
        return self._listeners[0].address

    @property
    def refused(self) -> int:
        """How many connections and requests were refused."""
        return self._refused

    def close(self) -> None:
        """End every connection and every offer. Idempotent."""
        for listener in self._listeners:
            listener.close()
        self.offers.close()

    def admit(self, stream: Stream) -> bool:
        """Return whether a connection has the token, and this protocol."""
        op, record, _ = stream.receive(_HELLO_BYTES)
        token = record.get("token", "")
        if op != Op.HELLO or not isinstance(token, str):
            raise FrameError("a connection that does not begin as one")
        if not self._security.admits(token.encode(errors="surrogatepass")):
            words = "this transfer server needs the job's token, and another was given, or none."
            error = refused(StatusCode.UNAUTHENTICATED, words)
        elif record.get("protocol") != PROTOCOL:
            words = f"this transfer server has protocol {PROTOCOL}. Use one version of devrt."
            error = refused(StatusCode.FAILED_PRECONDITION, words)
        else:
            return True
        stream.send(int(error.code), error_record(error))
        return False

    def serve(self, stream: Stream) -> None:
        """Greet a connection that was admitted, and answer its requests."""
        stream.send(_OK, {"request_bytes": self._request_bytes, "addresses": self._further()})
        leases: dict[str, Lease] = {}
        rate = Rate(self._bounds.requests_per_second)
        try:
            while self._answer(stream, leases, rate):
                pass
        except FrameError:
            self.count()  # nothing after it can be understood
        finally:
            for lease in leases.values():
                self.offers.release(lease, is_done=False)

    def count(self) -> None:
        """Note that a connection or a request was refused."""
        with self._lock:
            self._refused += 1

    def _further(self) -> list[str]:
        return [listener.address for listener in self._listeners[1:]]

    def _answer(self, stream: Stream, leases: dict[str, Lease], rate: Rate) -> bool:
        """Answer one request; return whether another may follow."""
        stream.is_patient = bool(leases)  # elements may take long on other connections
        number, record, data = stream.receive(self._bounds.message_bytes)
        stream.is_patient = False
        handlers = {Op.PULL: self._pull, Op.READ: self._read, Op.END: self._end}
        handler = handlers.get(number)  # type: ignore[call-overload]
        if handler is None or data:
            raise FrameError(f"a request that there is not: {number}")
        try:
            rate.check(_CALLER)
            answer = handler(record, leases)
        except DevrtError as error:
            self._refuse(stream, error)
        except (KeyError, TypeError, ValueError, OverflowError):
            words = f"a request {Op(number).name} lacks a field, or has a wrong one."
            self._refuse(stream, refused(StatusCode.INVALID_ARGUMENT, words))
            return False
        else:
            self._send(stream, *answer)
        return True

    def _send(self, stream: Stream, reply: dict[str, Any], parts: Sequence[np.ndarray]) -> None:
        """Send an answer with elements; those that do not lie in order are copied for it."""
        size = sum(part.nbytes for part in parts if not part.flags.c_contiguous)
        try:
            self._copies.take(size, self._bounds.stall_seconds / 2)  # before it counts as lost
        except DevrtError as error:
            self._refuse(stream, error)
            return
        whole = sum(part.nbytes for part in parts)
        bounds = self._bounds
        spent = bounds.stall_seconds + whole / bounds.least_bytes_per_second
        stream.deadline = monotonic() + spent
        try:
            stream.send(_OK, reply, map(_dense, parts))
            stream.deadline = None
        except TimeoutError:
            self.count()
            raise
        finally:
            self._copies.give_back(size)

    def _pull(self, record: dict[str, Any], leases: dict[str, Lease]) -> Answer:
        wanted = [(tuple(map(_whole, shape)), str(dtype)) for shape, dtype in record["arrays"]]
        most = min(_whole(record.get("inline", 0)), self._request_bytes)
        lease = self.offers.lease(_whole(record["uuid"]), _seconds(record["wait"]))
        offered = [(array.shape, array.dtype) for array in lease.arrays]
        if offered != wanted:
            self.offers.release(lease, is_done=False)
            raise _other_arrays(lease.offer.uuid, offered, wanted)
        leases[lease.key] = lease
        blocks = [[(block.start, block.shape) for block in array.blocks] for array in lease.arrays]
        reply = {"lease": lease.key, "blocks": blocks}
        if sum(array.nbytes for array in lease.arrays) > most:
            return reply, []
        try:
            return reply, [block.part() for array in lease.arrays for block in array.blocks]
        except BaseException:  # a deleted array, for one
            del leases[lease.key]
            self.offers.release(lease, is_done=False)
            raise

    def _read(self, record: dict[str, Any], leases: dict[str, Lease]) -> Answer:
        lease = self.offers.find(str(record["lease"]))
        wanted = record["regions"]
        if len(wanted) > MOST_REGIONS:
            words = f"a request for {len(wanted)} parts, of which {MOST_REGIONS} are allowed."
            raise refused(StatusCode.RESOURCE_EXHAUSTED, words)
        regions = [_Region(lease.arrays, *given) for given in wanted]
        if sum(region.nbytes for region in regions) > self._request_bytes:
            words = f"a request for more than {self._request_bytes} bytes. Ask for less at a time."
            raise refused(StatusCode.RESOURCE_EXHAUSTED, words)
        return {}, [region.elements() for region in regions]

    def _end(self, record: dict[str, Any], leases: dict[str, Lease]) -> Answer:
        self.offers.release(leases.pop(record["lease"]), is_done=bool(record["done"]))
        return {}, []

    def _refuse(self, stream: Stream, error: DevrtError) -> None:
        if error.code != StatusCode.DEADLINE_EXCEEDED:  # which asks again
            self.count()
        stream.send(int(error.code), error_record(error))


class _Region:
    """Some elements of a block."""

    def __init__(
        self, arrays: Sequence[OfferedArray], array: int, block: int, start: Any, shape: Any
    ) -> None:
        try:
            found: Block = arrays[_whole(array)].blocks[_whole(block)]
        except IndexError as error:
            raise ValueError from error
        for begin, size, whole in zip(start, shape, found.shape, strict=True):
            if _whole(begin) + _whole(size) > whole:
                raise ValueError
        self._block = found
        self._cut = tuple(slice(b, b + n) for b, n in zip(start, shape, strict=True))
        self.nbytes = math.prod(shape) * arrays[array].itemsize

    def elements(self) -> np.ndarray:
        """Return a view of them."""
        return self._block.part(self._cut)


def _whole(value: Any) -> int:
    """Return a number of a request, which must be an integer from 0 that 64 bits have."""
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError
    return value


def _seconds(value: Any) -> float:
    """Return for how long to wait: JSON has NaN and infinities, which would be for ever."""
    if type(value) not in {int, float} or not 0 <= value < math.inf:
        raise ValueError
    return min(float(value), _LONGEST_WAIT)


def _dense(part: Any) -> memoryview:
    import numpy as np

    dense: Any = np.ascontiguousarray(part)
    return memoryview(dense.reshape(-1).view(np.uint8))


def _other_arrays(uuid: int, offered: Sequence[Any], wanted: Sequence[Any]) -> DevrtError:
    if len(offered) != len(wanted):
        words = f"uuid {uuid} has {len(offered)} arrays, and {len(wanted)} are to be pulled."
        return refused(StatusCode.INVALID_ARGUMENT, words, uuid=uuid)
    number = next(
        n for n, pair in enumerate(zip(offered, wanted, strict=True)) if pair[0] != pair[1]
    )
    here, there = (f"{dtype}{list(shape)}" for shape, dtype in (offered[number], wanted[number]))
    words = f"array {number} of uuid {uuid} is {here}, and {there[:200]} is to be pulled."
    return refused(StatusCode.INVALID_ARGUMENT, words, uuid=uuid, array=number)
