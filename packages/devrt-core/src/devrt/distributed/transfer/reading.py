"""Reading regions of another process's blocks, straight into the memory that they fill."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Any

from devrt._support.record import record
from devrt.distributed.transfer.frames import MOST_REGIONS, FrameError, Op, Stream, raise_error
from devrt.errors import DevrtError

if TYPE_CHECKING:
    import numpy as np

__all__ = ["INLINE_BYTES", "REPLY_BYTES", "Reading", "Region", "check", "grouped", "read_inline"]

REPLY_BYTES = 16 << 20
"""The longest record of an answer: the blocks of many arrays; most are far below."""
INLINE_BYTES = 4 << 20
"""The most elements that come with the lease, in bytes: a pull of so few is one exchange less."""


@record(frozen=True, slots=True)
class Region:
    """Elements to read: of which array and block, from where in it, and what they fill.

    ``target`` has the elements' shape and dtype, and any strides; dense memory is received into.
    """

    array: int
    block: int
    start: tuple[int, ...]
    target: np.ndarray

    def pieces(self, most: int) -> Iterator[Region]:
        """Divide into regions of at most so many bytes, which are dense where this one is."""
        target = self.target
        axis = next((axis for axis, size in enumerate(target.shape) if size > 1), None)
        if target.nbytes <= most or axis is None:
            yield self
            return
        rows = max(1, most * target.shape[axis] // target.nbytes)
        for row in range(0, target.shape[axis], rows):
            cut: Any = (*(slice(None),) * axis, slice(row, row + rows), ...)
            start = (*self.start[:axis], self.start[axis] + row, *self.start[axis + 1 :])
            yield from Region(self.array, self.block, start, target[cut]).pieces(most)


class Reading:
    """Groups of regions, read by one thread for each connection."""

    def __init__(self, key: str, groups: deque[list[Region]], streams: Sequence[Stream]) -> None:
        self._key, self._groups, self._streams = key, groups, streams
        self._errors: list[BaseException] = []

    def run(self) -> None:
        """Read everything; raise the first error, once no thread reads any more."""
        first, *others = self._streams
        threads = [
            Thread(target=self._work, args=(stream,), name="devrt-pull", daemon=True)
            for stream in others
        ]
        for thread in threads:
            thread.start()
        try:
            self._work(first)
            for thread in threads:
                thread.join()
        except BaseException:  # the user's interrupt
            self._fail(KeyboardInterrupt())
            for thread in threads:
                thread.join()
            raise
        if self._errors:
            raise self._errors[0]

    def _work(self, stream: Stream) -> None:
        try:
            while not self._errors and (group := self._next()):
                _read(stream, self._key, group)
        except (OSError, FrameError, DevrtError, MemoryError) as error:
            self._fail(error)

    def _next(self) -> list[Region] | None:
        try:
            return self._groups.popleft()
        except IndexError:
            return None

    def _fail(self, error: BaseException) -> None:
        self._errors.append(error)
        for stream in self._streams:
            stream.close()  # so that no thread waits for the rest


def _read(stream: Stream, key: str, group: Sequence[Region]) -> None:
    wanted = [(one.array, one.block, one.start, one.target.shape) for one in group]
    stream.send(Op.READ, {"lease": key, "regions": wanted})
    code, reply, size = stream.receive(REPLY_BYTES)
    check(code, reply)
    if size != sum(one.target.nbytes for one in group):
        raise FrameError("other elements than were requested")
    for one in group:
        _fill(stream, one.target)


def _fill(stream: Stream, target: np.ndarray) -> None:
    import numpy as np

    is_dense = target.flags.c_contiguous
    dense = target if is_dense else np.empty(target.shape, target.dtype)
    stream.receive_into(memoryview(dense.reshape(-1).view(np.uint8)))  # type: ignore[arg-type]
    if not is_dense:
        target[...] = dense


def read_inline(
    stream: Stream,
    size: int,
    dtypes: Sequence[np.dtype[Any]],
    held: Sequence[Sequence[tuple[tuple[int, ...], tuple[int, ...]]]],
    regions: Sequence[Region],
) -> None:
    """Fill regions with elements that follow the answer to a pull: of every block all.

    Parameters
    ----------
    stream, size
        The connection, and how many bytes follow.
    dtypes, held
        The dtype of each array, and the start and shape of each of its blocks.
    regions
        What is to be filled.
    """
    shapes = [
        (array, block, shape)
        for array, blocks in enumerate(held)
        for block, (_, shape) in enumerate(blocks)
    ]
    expected = sum(math.prod(shape) * dtypes[array].itemsize for array, _, shape in shapes)
    if size != expected or size > INLINE_BYTES:
        raise FrameError("other elements than were requested")
    of_block: dict[tuple[int, int], list[Region]] = {}
    for region in regions:
        of_block.setdefault((region.array, region.block), []).append(region)
    for array, block, shape in shapes:
        _fill_all(stream, shape, dtypes[array], of_block.get((array, block), []))


def _fill_all(
    stream: Stream, shape: tuple[int, ...], dtype: np.dtype[Any], regions: Sequence[Region]
) -> None:
    import numpy as np

    if len(regions) == 1 and regions[0].target.shape == shape:
        _fill(stream, regions[0].target)
        return
    whole = np.empty(shape, dtype)
    _fill(stream, whole)
    for region in regions:
        ends = zip(region.start, region.target.shape, strict=True)
        cut: Any = (*(slice(begin, begin + count) for begin, count in ends), ...)
        region.target[...] = whole[cut]


def grouped(regions: Sequence[Region], most: int) -> list[list[Region]]:
    """Put regions together that one request asks for."""
    groups: list[list[Region]] = []
    size = most
    for region in regions:
        if size + region.target.nbytes > most or len(groups[-1]) >= MOST_REGIONS:
            groups.append([])
            size = 0
        groups[-1].append(region)
        size += region.target.nbytes
    return groups


def check(code: int, reply: dict[str, Any]) -> None:
    """Raise the error that an answer is, if it is one."""
    if code:
        raise_error(code, reply)
