"""Devices, their memories, the buffers on them and what is counted of these."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from devrt.contract import Buffer, Device
from devrt.errors import DevrtError, InvalidArgumentError, OutOfMemoryError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import Failure, expect, expect_equal, expect_error, require
from devrt.testing.conformance.material import (
    bytes_in_use,
    memories,
    other_client,
    put,
    statistics,
)
from devrt.testing.conformance.subject import Subject

MIB = 1 << 20
_MOST_FILLED = 4 << 30
X = np.arange(6, dtype=np.float32).reshape(2, 3)
NO_TARGET = "Client.buffer_from_pyval: raises InvalidArgumentError if device is none of these"


@case(
    "memory",
    "a memory says whose it is and what may share it",
    contract="Memory.platform: the platform of its devices. Memory.address_space: equal for "
    "memories whose buffers may share allocations.",
)
def memories_say_whose_they_are(subject: Subject) -> None:
    for device in subject.devices:
        for memory in device.addressable_memories():
            expect_equal(memory.platform, device.platform, "the memory's platform")
            expect_equal(memory.process_index, device.process_index, "its process_index")
            expect_equal(type(memory.is_host_visible), bool, "the type of is_host_visible")
            expect_equal(type(memory.shares_parts), bool, "the type of shares_parts")
            again = memory.address_space
            expect_equal(hash(memory.address_space), hash(again), "the hash of address_space")
            expect_equal(memory.address_space == again, True, "address_space equals itself")


@case(
    "memory",
    "a buffer lies on the memory that it was put on",
    contract="Client.buffer_from_pyval: device: a device of this client (its default memory is "
    "taken), a memory of this client, or None for the first local device.",
)
def buffers_lie_where_they_were_put(subject: Subject) -> None:
    _lies_on(put(subject, X), subject.device, subject.device.default_memory())
    for device in subject.devices:
        _lies_on(put(subject, X, device), device, device.default_memory())
        for memory in device.addressable_memories():
            _lies_on(put(subject, X, memory), None, memory)


def _lies_on(buffer: Buffer, device: Device | None, memory: Any) -> None:
    expect(buffer.memory is memory, expected=f"a buffer on {memory!r}", came=repr(buffer.memory))
    found, may_be = buffer.device, memory.addressable_by_devices()
    is_right = found is device if device is not None else any(found is d for d in may_be)
    expect(is_right, expected=f"a buffer on {device or may_be}", came=repr(found))
    expect_equal(buffer, X, f"what was put on {memory!r}")


@case(
    "memory",
    "live buffers are those neither deleted nor collected, the oldest first",
    contract="Client.live_buffers: the buffers that are neither deleted nor collected, "
    "oldest first.",
)
def live_buffers_oldest_first(subject: Subject) -> None:
    client, devices = subject.client, subject.devices
    gc.collect()
    before = len(client.live_buffers())
    made = [put(subject, np.full(n + 1, n, np.int32), devices[n % len(devices)]) for n in range(9)]
    _are_live(client.live_buffers()[before:], made, "client.live_buffers()")
    _are_live(client.live_arrays()[before:], made, "client.live_arrays()")
    for device in devices[:2]:
        on_it = [buffer for buffer in made if buffer.device is device]
        _are_live(device.live_buffers()[-len(on_it) :], on_it, f"{device}.live_buffers()")
        del on_it
    made.pop(4).delete()
    del made[1]
    gc.collect()
    _are_live(client.live_buffers()[before:], made, "live buffers after two have gone")
    hashes = [hash(buffer) for buffer in client.live_buffers()[before:]]
    expect_equal(hashes, [hash(buffer) for buffer in made], "hashes of the same buffers")


def _are_live(came: list[Buffer], expected: list[Buffer], what: str) -> None:
    shapes = [buffer.shape for buffer in came]
    expect_equal(shapes, [buffer.shape for buffer in expected], f"shapes of {what}")
    expect(came == expected, expected=f"{what} equal to the buffers made", came="other objects")


@case(
    "memory",
    "statistics count what lives and forget what has gone",
    contract="Device.memory_stats: counts and bytes of the device's memories, keyed as JAX keys "
    "them. bytes_in_use is always among them.",
)
def statistics_follow_buffers(subject: Subject) -> None:
    device = subject.devices[-1]
    before = bytes_in_use(device)
    buffers = [
        put(subject, np.ones(MIB // 4, np.float32), device).block_until_ready() for _ in range(3)
    ]
    during = bytes_in_use(device) - before
    expect(during >= 3 * MIB, expected="3 MiB more in use", came=f"{during} bytes")
    peak = (statistics(device) or {}).get("peak_bytes_in_use")
    if peak is not None:
        expect(peak >= before + during, expected=f"a peak of {before + during}", came=str(peak))
    buffers.pop().delete()
    left = bytes_in_use(device) - before
    expect(left == during * 2 // 3, expected=f"{during * 2 // 3} bytes after one", came=str(left))
    del buffers
    gc.collect()
    expect_equal(bytes_in_use(device) - before, 0, "bytes in use after all have gone")
    _no_number_is_negative(device)


def _no_number_is_negative(device: Device) -> None:
    for name, number in (statistics(device) or {}).items():
        is_count = isinstance(number, int) and number >= 0
        expect(is_count, expected=f"{name} as a count", came=repr(number))


@case(
    "memory",
    "nothing is left in use after many buffers, copies, clones and reads",
    contract="Buffer.delete: give the memory back as soon as no work in flight uses it.",
)
def nothing_left_after_many(subject: Subject) -> None:
    target = memories(subject)[-1]
    devices = subject.devices
    gc.collect()
    before = [bytes_in_use(device) for device in devices]
    for number in range(200):
        buffer = put(subject, np.full((number % 7, 33), number, np.int32))
        copied = buffer.copy_to_memory(target)
        cloned = buffer.clone()
        np.asarray(copied).sum()
        if number % 2:
            buffer.delete()
            buffer.delete()
            cloned.delete()
    del buffer, copied, cloned
    gc.collect()
    after = [bytes_in_use(device) for device in devices]
    expect_equal(after, before, "bytes in use of each device")


@case(
    "memory",
    "a clone counts no memory of its own and keeps the memory of what was deleted",
    contract="Buffer.clone: another handle on the same allocation, deleted independently of "
    "this one.",
)
def clone_keeps_the_memory(subject: Subject) -> None:
    device = subject.device
    before = bytes_in_use(device)
    buffer = put(subject, np.ones(MIB, np.uint8), device).block_until_ready()
    one = bytes_in_use(device) - before
    clone = buffer.clone().block_until_ready()
    counted = bytes_in_use(device) - before
    expect(counted == one, expected=f"{one} bytes for both", came=f"{counted}")
    buffer.delete()
    expect_equal(bytes_in_use(device) - before, one, "bytes in use while the clone lives")
    expect_equal(clone, np.ones(MIB, np.uint8), "the clone of a deleted buffer")
    clone.delete()
    gc.collect()
    expect_equal(bytes_in_use(device) - before, 0, "bytes in use after both were deleted")


@case(
    "memory",
    "the size on the device is that of the elements at least",
    contract="Buffer.on_device_size_in_bytes: the size of the allocation, padding included, "
    "in bytes.",
)
def size_on_the_device(subject: Subject) -> None:
    for shape in ((), (7,), (3, 5), (1000, 3)):
        buffer = put(subject, np.zeros(shape, np.float32))
        size, least = buffer.on_device_size_in_bytes(), buffer.nbytes
        expect(size >= least, expected=f"at least {least} bytes for {shape}", came=str(size))
        expect(size < least + MIB, expected=f"about {least} bytes for {shape}", came=str(size))


@case(
    "memory",
    "a size that no memory has is an error, and leaves nothing behind",
    contract="Client.buffer_from_pyval: raises OutOfMemoryError if the memory is full.",
)
def size_that_no_memory_has(subject: Subject) -> None:
    device = subject.device
    stats, live = statistics(device), len(subject.client.live_buffers())
    for shape in ((1 << 60,), (1 << 30, 1 << 30)):
        endless = np.broadcast_to(np.uint8(1), shape)
        try:
            put(subject, endless, device)
        except (OutOfMemoryError, InvalidArgumentError):
            continue
        except Exception as error:
            came = f"{type(error).__name__}: {error}"
            raise Failure("OutOfMemoryError, or InvalidArgumentError", came) from error
        raise Failure("OutOfMemoryError", "a buffer of 2**60 bytes")
    _nothing_remains(subject, device, stats, live)


@case(
    "memory",
    "more than the limit is refused as out of memory, and leaves nothing behind",
    contract="Client.buffer_from_pyval: raises OutOfMemoryError if the memory is full.",
    alone=True,
)
def out_of_memory_leaves_nothing(subject: Subject) -> None:
    device = subject.device
    stats = statistics(device) or {}
    limit = int(stats.get("bytes_limit", 0))
    require(limit > 0, "the device's statistics have no bytes_limit")
    live = len(subject.client.live_buffers())
    bound_address_space()
    # Repeated rows: the source itself takes no memory, whatever the device has.
    source = np.broadcast_to(np.zeros(MIB, np.uint8), (limit // MIB + 1, MIB))
    for _ in range(3):
        with expect_error(OutOfMemoryError):
            put(subject, source, device)
    _nothing_remains(subject, device, stats, live)
    put(subject, np.ones(MIB, np.uint8), device).block_until_ready()


@case(
    "memory",
    "memory that is filled piece by piece ends as out of memory, and is of use after a release",
    contract="Client.buffer_from_pyval: raises OutOfMemoryError if the memory is full.",
    deadline=60.0,
    alone=True,
)
def filled_memory_is_of_use_again(subject: Subject) -> None:
    device = subject.device
    limit = int((statistics(device) or {}).get("bytes_limit", 0))
    require(limit > 0, "the device's statistics have no bytes_limit")
    require(limit <= _MOST_FILLED, f"its {limit} bytes are more than a case fills: use simulated")
    bound_address_space()
    piece = np.broadcast_to(np.uint8(3), (max(limit // 16, 1),))
    kept: list[Buffer] = []
    for _ in range(3):
        with expect_error(OutOfMemoryError):
            while len(kept) <= 20:  # each is of one sixteenth
                kept.append(put(subject, piece, device).block_until_ready())
        expect(len(kept) >= 8, expected="half of the memory filled", came=f"{len(kept)} of 16")
        expect_equal(kept[0], piece, "what was put first")
        for buffer in kept:
            buffer.delete()
        kept.clear()
        expect_equal(put(subject, piece, device), piece, "what is put after the release")


def bound_address_space(statm: str = "/proc/self/statm") -> None:
    """Let a backend that does not keep its own limit fail before it takes the machine's memory."""
    try:
        import resource
    except ImportError:  # no such limits on this system
        return
    try:
        with open(statm, encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:  # a limit below what is in use ends the process
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = used + (4 << 30)
    if hard == resource.RLIM_INFINITY or wanted < hard:
        resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _nothing_remains(
    subject: Subject, device: Device, stats: dict[str, int] | None, live: int
) -> None:
    gc.collect()
    expect_equal(len(subject.client.live_buffers()), live, "live buffers after the error")
    for name in ("bytes_in_use", "bytes_reserved"):
        if stats and name in stats:
            came = (statistics(device) or {}).get(name)
            expect_equal(came, stats[name], f"{name} after the error")
    expect_equal(put(subject, X, device), X, "a value put after the error")


@case(
    "memory",
    "memory that is given back takes no data with it",
    contract="Client.defragment: give memory that is kept for reuse back.",
)
def defragment_keeps_data(subject: Subject) -> None:
    kept = [put(subject, np.full(5000, n, np.int32)) for n in range(8)]
    for number in (1, 4, 6):
        kept[number].delete()
    try:
        subject.client.defragment()
    except DevrtError as error:
        raise Failure("defragment to return", f"{type(error).__name__}: {error}") from error
    for number in (0, 2, 3, 5, 7):
        expect_equal(kept[number], np.full(5000, number, np.int32), f"buffer {number}")


@case(
    "memory",
    "the peak is counted anew from each mark",
    contract="Device.mark_peak_bytes: the most bytes in use since the last call, and count anew "
    "from now.",
)
def peak_counted_anew(subject: Subject) -> None:
    device = subject.device
    require(device.mark_peak_bytes() is not None, "the device keeps no such peak")
    before = bytes_in_use(device)
    put(subject, np.ones(4 * MIB, np.uint8), device).block_until_ready().delete()
    gc.collect()
    first = device.mark_peak_bytes() or 0
    expect(first >= before + 4 * MIB, expected="a peak with 4 MiB more", came=f"{first - before}")
    second = device.mark_peak_bytes() or 0
    expect(second < before + 4 * MIB, expected="the 4 MiB forgotten", came=f"{second - before}")


@case(
    "memory",
    "devices and memories of another client are refused",
    contract=NO_TARGET,
)
def foreign_targets_refused(subject: Subject) -> None:
    buffer = put(subject, X)
    with other_client(subject) as other:
        foreign = other.local_devices()[0]
        for target in (foreign, foreign.default_memory()):
            with expect_error(InvalidArgumentError):
                put(subject, X, target)
        with expect_error(InvalidArgumentError):
            subject.client.batched_buffer_from_pyval(X, [foreign], [(0, 0)], X.shape)
        with expect_error(InvalidArgumentError):
            buffer.copy_to_memory(foreign.default_memory())
        theirs = other.buffer_from_pyval(X)
        with expect_error(InvalidArgumentError):
            subject.client.batched_copy_to_memory([theirs], [subject.device])
    expect_equal(buffer, X, "the buffer afterwards")


@case(
    "memory",
    "what is no device and no memory is refused",
    contract=NO_TARGET,
)
def targets_that_are_none_refused(subject: Subject) -> None:
    for target in ("cpu:0", 0, object()):
        wrong: Any = target
        with expect_error(InvalidArgumentError):  # InvalidTypeError is one
            put(subject, X, wrong)
