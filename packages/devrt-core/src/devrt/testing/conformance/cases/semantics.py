"""What becomes of the host's memory: the source's after a transfer, and what a reader is shown."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.contract import Buffer, HostBufferSemantics
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, expect_equal, expect_error
from devrt.testing.conformance.material import Array, aligned, put, together
from devrt.testing.conformance.subject import Subject

SIZES = (8, 1 << 16, 1 << 20)
STEPS = (1, 2, -1)
OFFSETS = (0, 4)
DURING_CALL = HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
UNTIL_COMPLETE = HostBufferSemantics.IMMUTABLE_UNTIL_TRANSFER_COMPLETES


def _expect_what_was_put(
    subject: Subject,
    source: Array,
    semantics: int,
    until: Callable[[Buffer], object] = lambda buffer: None,
    *,
    force_copy: bool = False,
) -> None:
    """Put a source and change it after ``until``; fail unless the buffer has what was put."""
    wanted = source.copy()
    buffer = subject.client.buffer_from_pyval(source, None, force_copy, semantics)
    until(buffer)
    source[:] = -1
    what = f"{source.size} elements with strides {source.strides}, semantics {semantics}"
    expect_equal(np.asarray(buffer), wanted, what)


def _spin(buffer: Buffer) -> None:
    while not buffer.is_ready():
        pass


@case(
    "transfer",
    "a source may change as soon as the call has returned",
    contract="HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL: the source is not touched after the "
    "call returns; the caller may change it at once.",
)
def source_may_change_at_once(subject: Subject) -> None:
    for size, step, offset in itertools.product(SIZES, STEPS, OFFSETS):
        _expect_what_was_put(subject, aligned(size, offset=offset)[::step], DURING_CALL)


@case(
    "transfer",
    "a source may change once the buffer is ready",
    contract="HostBufferSemantics.IMMUTABLE_UNTIL_TRANSFER_COMPLETES: the source must not change "
    "until the buffer is ready; the client keeps it alive.",
)
def source_may_change_when_ready(subject: Subject) -> None:
    for size, step, offset in itertools.product(SIZES, STEPS, OFFSETS):
        source = aligned(size, offset=offset)[::step]
        _expect_what_was_put(subject, source, UNTIL_COMPLETE, lambda b: b.block_until_ready())


@case(
    "transfer",
    "is_ready says no sooner than the source may change",
    contract="Buffer.is_ready: whether the data has arrived, without waiting.",
)
def is_ready_is_not_too_early(subject: Subject) -> None:
    for size in (8, 1 << 20):
        for _ in range(5):
            _expect_what_was_put(subject, aligned(size), UNTIL_COMPLETE, _spin)


@case(
    "transfer",
    "a source may be dropped at once, whatever was promised of it",
    contract="HostBufferSemantics.IMMUTABLE_UNTIL_TRANSFER_COMPLETES: the client keeps it alive.",
    deadline=60.0,  # 36 transfers, each beside threads of others on a busy machine
)
def source_may_be_dropped(subject: Subject) -> None:
    for size, step, semantics in itertools.product(SIZES, STEPS, HostBufferSemantics):
        source = aligned(size)[::step]
        wanted = source.copy()
        buffer = subject.client.buffer_from_pyval(source, None, False, semantics)
        del source
        taking = [aligned(size) + 1 for _ in range(3)]  # memory that was freed
        expect_equal(np.asarray(buffer), wanted, f"{size} elements, {semantics.name}")
        del taking


@case(
    "transfer",
    "a forced copy does not show the source",
    contract="Client.buffer_from_pyval: force_copy: never alias the source, whatever "
    "host_buffer_semantics allows.",
)
def forced_copy_does_not_alias(subject: Subject) -> None:
    for size, semantics in itertools.product(SIZES, HostBufferSemantics):
        _expect_what_was_put(
            subject, aligned(size), semantics, lambda b: b.block_until_ready(), force_copy=True
        )


@case(
    "transfer",
    "a source that is lent is never written to",
    contract="HostBufferSemantics.MUTABLE_ZERO_COPY: the device may write to the source when the "
    "buffer is donated, and not before.",
)
def lent_source_is_not_written(subject: Subject) -> None:
    for size, semantics in itertools.product(SIZES, HostBufferSemantics):
        source = aligned(size)
        wanted = source.copy()
        buffer = subject.client.buffer_from_pyval(source, None, False, semantics)
        copied = buffer.copy_to_memory(buffer.memory, may_alias=False)
        np.asarray(copied).sum()
        buffer.delete()
        expect_equal(source, wanted, f"the source of {size} elements, {semantics.name}")


@case(
    "transfer",
    "what a reader is shown is read-only",
    contract="Buffer.__array__: return the data as a read-only NumPy array.",
)
def array_is_read_only(subject: Subject) -> None:
    for size in (1, 5, 1000, 1 << 18):
        buffer = put(subject, np.arange(size, dtype=np.int32))
        for view in (np.asarray(buffer), buffer.__array__()):
            expect_equal(view.flags.writeable, False, f"flags.writeable of {size} elements")
            with expect_error(ValueError, "read-only"):
                view[0] = 7
        expect_equal(np.asarray(buffer), np.arange(size, dtype=np.int32), "the data afterwards")


@case(
    "transfer",
    "a copy on request is the caller's own",
    contract="Buffer.__array__: with copy=True it is the caller's own, and writable.",
)
def array_copy_is_the_callers(subject: Subject) -> None:
    for size in (1, 5, 1000, 1 << 18):
        wanted = np.arange(size, dtype=np.int32)
        buffer = put(subject, wanted)
        for own in (buffer.__array__(copy=True), np.array(buffer), np.array(buffer, copy=True)):
            expect_equal(own.flags.writeable, True, "flags.writeable of a copy")
            own[:] = -1
        expect_equal(np.asarray(buffer), wanted, "the buffer after its copies were written to")


@case(
    "transfer",
    "__array__ converts the dtype, and refuses what cannot be without a copy",
    contract="Buffer.__array__: both parameters are as NumPy's protocol has them.",
)
def array_converts(subject: Subject) -> None:
    wanted = np.arange(6, dtype=np.float32).reshape(2, 3)
    buffer = put(subject, wanted)
    for dtype in (np.int32, np.float64, np.float16):
        expect_equal(np.asarray(buffer, dtype=dtype), wanted.astype(dtype), f"as {dtype.__name__}")
        expect_equal(buffer.__array__(np.dtype(dtype)), wanted.astype(dtype), "by __array__")
    same = buffer.__array__(np.dtype(np.float32), copy=None)
    expect_equal(same, wanted, "in the buffer's own dtype")
    with expect_error(ValueError, "copy"):
        buffer.__array__(np.dtype(np.int32), copy=False)


@case(
    "transfer",
    "reading again, and from threads, gives the same",
    contract="Buffer.__array__: every reader of an array is handed the same one.",
)
def reading_again_gives_the_same(subject: Subject) -> None:
    wanted = np.arange(30_000, dtype=np.int32).reshape(100, 300)
    buffer = put(subject, wanted)
    buffer.copy_to_host_async()

    def read(_: int) -> None:
        for _ in range(5):
            expect_equal(np.asarray(buffer), wanted, "what one of several readers is shown")

    together(read, 4)
    views: list[Any] = [np.asarray(buffer) for _ in range(3)]
    expect(len({v.tobytes() for v in views}) == 1, expected="one value", came="several")
