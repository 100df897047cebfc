"""Copies between devices and memories, many at once too, and to and from the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from devrt.contract import Buffer, Client
from devrt.errors import DeletedError, InvalidArgumentError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import (
    expect,
    expect_equal,
    expect_error,
    not_applicable,
    require,
)
from devrt.testing.conformance.material import memories, put
from devrt.testing.conformance.subject import Subject

X = np.arange(12, dtype=np.float32).reshape(3, 4)
COPY = "Buffer.copy_to_memory: a new buffer with a ready event of its own. Does not wait."


@case("transfer", "a copy from any memory to any other has the same values", contract=COPY)
def copies_between_all_memories(subject: Subject) -> None:
    for host in (X, np.arange(1 << 16, dtype=np.int16)[::2]):
        for source in memories(subject)[:8]:
            buffer = put(subject, host, source)
            for target in memories(subject)[:8]:
                copied = buffer.copy_to_memory(target)
                expect(copied is not buffer, expected="a new buffer", came="the same one")
                expect(copied.memory is target, expected=f"on {target!r}", came=repr(copied.memory))
                expect_equal(np.asarray(copied), host.copy(), f"from {source!r} to {target!r}")


@case("transfer", "a copy stays when its source is deleted", contract=COPY)
def copy_outlives_its_source(subject: Subject) -> None:
    wanted = np.arange(1 << 17, dtype=np.int32)
    for may_alias in (True, False):
        for target in memories(subject)[:8]:
            source = put(subject, wanted)
            copied = source.copy_to_memory(target, may_alias=may_alias)
            source.delete()
            put(subject, np.full(1 << 17, -1, np.int32)).block_until_ready()
            expect_equal(np.asarray(copied), wanted, f"a copy on {target!r}, {may_alias=}")
            expect_equal(copied.is_deleted(), False, "is_deleted() of the copy")


@case(
    "transfer",
    "a copy that may not alias has memory of its own",
    contract="Buffer.copy_to_memory: may_alias: whether the result may share the allocation where "
    "both memories are one address space.",
)
def copy_without_alias(subject: Subject) -> None:
    for host in (X, np.arange(1 << 16, dtype=np.float32)):
        for source in memories(subject)[:6]:
            buffer = put(subject, host, source).block_until_ready()
            copied = buffer.copy_to_memory(source, may_alias=False).block_until_ready()
            apart = copied.unsafe_buffer_pointer() != buffer.unsafe_buffer_pointer()
            expect(apart, expected=f"another address on {source!r}", came="the source's own")
            expect_equal(np.asarray(copied), host, "a copy with memory of its own")


@case(
    "transfer",
    "memories of different address spaces share no allocation",
    contract="Memory.address_space: equal for memories whose buffers may share allocations.",
)
def address_spaces_are_apart(subject: Subject) -> None:
    there = memories(subject)
    pairs = [
        (one, other)
        for one in there
        for other in there
        if one.address_space != other.address_space
        and one.is_host_visible
        and other.is_host_visible
    ]
    require(pairs, "all memories that the host sees are one address space")
    for one, other in pairs[:12]:
        buffer = put(subject, X, one).block_until_ready()
        copied = buffer.copy_to_memory(other).block_until_ready()
        apart = copied.unsafe_buffer_pointer() != buffer.unsafe_buffer_pointer()
        expect(apart, expected=f"a copy from {one!r} to {other!r}", came="the same address")


@case("transfer", "a chain of copies ends with the first values", contract=COPY)
def chain_of_copies(subject: Subject) -> None:
    there = memories(subject)
    wanted = np.arange(70_000, dtype=np.int32)
    buffer = put(subject, wanted)
    for number in range(24):
        following = buffer.copy_to_memory(there[number % len(there)], may_alias=number % 3 == 0)
        if number % 2:
            buffer.delete()
        buffer = following
    expect_equal(np.asarray(buffer), wanted, "the end of 24 copies")


@case(
    "transfer",
    "many values are put in one call",
    contract="Client.buffers_from_pyvals: one for each target, in order.",
)
def many_puts_in_one_call(subject: Subject) -> None:
    targets: list[Any] = [*subject.devices, *memories(subject)]
    hosts = [np.full((n % 3, 5), n, np.int32)[:, ::-1] for n in range(len(targets))]
    for semantics in (0, 1):
        made = subject.client.buffers_from_pyvals(hosts, targets, semantics)
        expect_equal(len(made), len(targets), "how many buffers")
        for host, target, buffer in zip(hosts, targets, made, strict=True):
            expect(target in (buffer.device, buffer.memory), expected=target, came=buffer)
            expect_equal(np.asarray(buffer), host.copy(), f"what was put on {target!r}")


@case(
    "transfer",
    "blocks of one array go to their devices in one call",
    contract="Client.batched_buffer_from_pyval: one block of a host array to each of several "
    "devices.",
)
def blocks_in_one_call(subject: Subject) -> None:
    devices = subject.devices
    count = len(devices)
    for host in (
        np.arange(count * 24, dtype=np.float32).reshape(4 * count, 6),
        np.arange(count * 24, dtype=">i4").reshape(6, 4 * count).T,
        np.arange(count * 48, dtype=np.int16).reshape(8 * count, 6)[::-2],
    ):
        offsets = [(4 * n, n % 3) for n in range(count)]
        blocks = subject.client.batched_buffer_from_pyval(host, devices, offsets, (4, 3))
        for device, (row, column), block in zip(devices, offsets, blocks, strict=True):
            expect(block.device is device, expected=f"a block on {device}", came=block.device)
            wanted = host[row : row + 4, column : column + 3]
            native = wanted.astype(wanted.dtype.newbyteorder("="))
            expect_equal(np.asarray(block), native, f"the block at {row}, {column}")
    (whole,) = subject.client.batched_buffer_from_pyval(np.float32(3), devices[:1], [()], ())
    expect_equal(np.asarray(whole), np.float32(3).reshape(()), "a block without dimensions")


@case(
    "transfer",
    "many buffers are copied in one call",
    contract="Client.batched_copy_to_memory: one for each target, in order.",
)
def many_copies_in_one_call(subject: Subject) -> None:
    targets: list[Any] = [*subject.devices, *memories(subject)][::-1]
    held = [put(subject, np.full((3, 5), n, np.int32)) for n in range(len(targets))]
    for may_alias in (True, False):
        made = subject.client.batched_copy_to_memory(held, targets, may_alias)
        expect_equal(len(made), len(targets), "how many buffers")
        for source, target, buffer in zip(held, targets, made, strict=True):
            expect(target in (buffer.device, buffer.memory), expected=target, came=buffer)
            expect_equal(np.asarray(buffer), np.asarray(source), f"a copy on {target!r}")
            is_own = buffer.unsafe_buffer_pointer() != source.unsafe_buffer_pointer()
            if not may_alias:
                expect(is_own, expected="memory of its own", came="the source's address")


@case(
    "transfer",
    "many buffers are gathered into one array",
    contract="Client.batched_copy_to_host: wait for buffers and write each into an array in host "
    "memory.",
)
def many_reads_in_one_call(subject: Subject) -> None:
    for rows in (8, 1 << 14):
        whole = np.arange(rows * 2, dtype=np.int32).reshape(rows, 2)
        part, devices = rows // 4, [subject.devices[n % len(subject.devices)] for n in range(8)]
        offsets = [(part * (n // 2), n % 2) for n in range(8)]
        held = subject.client.batched_buffer_from_pyval(whole, devices, offsets, (part, 1))
        out = np.full_like(whole, -1)
        subject.client.batched_copy_to_host(held, offsets, out)
        expect_equal(out, whole, f"eight blocks of {part} rows")


@case(
    "transfer",
    "one call waits for many buffers, and raises the error of one",
    contract="Client.batched_block_until_ready: wait for every buffer with the GIL released; raise "
    "the first error. InvalidArgumentError if it is no sequence of buffers.",
)
def many_waits_in_one_call(subject: Subject) -> None:
    client = subject.client
    held = [
        client.buffer_from_pyval(np.full(1 << 15, n, np.int32), d, False, 1)
        for n, d in enumerate(subject.devices * 3)
    ]
    client.batched_block_until_ready(held)
    expect_equal([b.is_ready() for b in held], [True] * len(held), "is_ready() of each")
    client.batched_block_until_ready([])
    held[1].delete()
    with expect_error(DeletedError):
        client.batched_block_until_ready(held)
    wrong: Any = [3]
    with expect_error(InvalidArgumentError):
        client.batched_block_until_ready(wrong)


def _cpu_clients(subject: Subject) -> Iterator[Client]:
    import devrt
    from devrt.errors import SelectionError

    require(subject.platform != "cpu", "it is the CPU's own backend")
    try:
        yield devrt.devices("cpu")[0].client
    except SelectionError as error:
        not_applicable(f"there is no backend of the CPU: {error}")


@case(
    "transfer",
    "values go to the CPU's client and come from it",
    contract="Client.buffer_from_pyval: an object with the buffer protocol or __array__, as a "
    "buffer of any client is.",
)
def copies_to_and_from_the_cpu(subject: Subject) -> None:
    for cpu in _cpu_clients(subject):
        for host in (X, X.T, np.arange(1 << 16, dtype=np.int16), np.zeros((0, 3), np.int8)):
            there: Buffer = cpu.buffer_from_pyval(np.asarray(put(subject, host)))
            back = put(subject, there)
            expect_equal(np.asarray(there), host.copy(), "on the CPU")
            there.delete()
            expect_equal(np.asarray(back), host.copy(), "back from the CPU")


@case(
    "transfer",
    "device_put moves arrays to the CPU's devices and back",
    contract="Buffer.copy_to_memory and Client.buffer_from_pyval, by which devrt.device_put moves "
    "arrays between platforms.",
)
def device_put_to_and_from_the_cpu(subject: Subject) -> None:
    import devrt

    for cpu in _cpu_clients(subject):
        for host in (X, np.arange(1 << 17, dtype=np.int32).reshape(256, 512)):
            here = devrt.device_put(host, subject.device)
            there = devrt.device_put(here, cpu.local_devices()[0])
            back = devrt.device_put(there, subject.devices[-1])
            expect_equal(np.asarray(there), host, "on the CPU")
            expect_equal(np.asarray(back), host, "back from the CPU")
            expect(back.device is subject.devices[-1], expected="its device", came=back.device)
