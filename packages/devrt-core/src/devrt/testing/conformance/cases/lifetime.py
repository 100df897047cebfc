"""How long buffers, clones, views and clients live, and what is reported once they do not."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from devrt.contract import Buffer, Client
from devrt.errors import ClosedError, DeletedError, DevrtError
from devrt.testing.conformance.case import case
from devrt.testing.conformance.expect import expect, expect_equal, expect_error
from devrt.testing.conformance.material import (
    DELETED,
    aligned,
    bytes_in_use,
    other_client,
    put,
    statistics,
    together,
)
from devrt.testing.conformance.subject import Subject

X = np.arange(12, dtype=np.float32).reshape(3, 4)

USES: dict[str, Callable[[Buffer], Any]] = {
    "is_ready": lambda b: b.is_ready(),
    "block_until_ready": lambda b: b.block_until_ready(),
    "clone": lambda b: b.clone(),
    "on_device_size_in_bytes": lambda b: b.on_device_size_in_bytes(),
    "unsafe_buffer_pointer": lambda b: b.unsafe_buffer_pointer(),
    "__array__": lambda b: b.__array__(),
    "numpy.asarray": np.asarray,
}


def _keeps_its_facts(buffer: Buffer) -> None:
    expect_equal((buffer.shape, buffer.dtype), (X.shape, X.dtype), "shape and dtype kept")
    expect_equal((buffer.ndim, buffer.size, buffer.nbytes), (2, 12, 48), "ndim, size and nbytes")


@case(
    "memory",
    "a deleted buffer refuses use and keeps its shape",
    contract=DELETED,
)
def deleted_buffer_refuses(subject: Subject) -> None:
    buffer = put(subject, X)
    memory = buffer.memory
    expect_equal(buffer.is_deleted(), False, "is_deleted() before")
    buffer.delete()
    expect_equal(buffer.is_deleted(), True, "is_deleted() after delete()")
    for use in USES.values():
        with expect_error(DeletedError):
            use(buffer)
    with expect_error(DeletedError):
        buffer.copy_to_memory(memory)
    _keeps_its_facts(buffer)
    expect(bool(repr(buffer)), expected="a repr", came="an empty one")


@case(
    "memory",
    "a buffer may be deleted twice, and from several threads",
    contract="Buffer.delete: give the memory back as soon as no work in flight uses it. "
    "Idempotent.",
)
def deleting_twice(subject: Subject) -> None:
    has_statistics = statistics(subject.device) is not None
    before = bytes_in_use(subject.device) if has_statistics else 0
    for _ in range(20):
        buffer = put(subject, X)
        together(lambda _, each=buffer: each.delete(), 4)  # type: ignore[misc]
        buffer.delete()
        expect_equal(buffer.is_deleted(), True, "is_deleted()")
    if has_statistics:
        expect_equal(bytes_in_use(subject.device), before, "bytes in use afterwards")


@case(
    "memory",
    "a clone and its original are deleted independently",
    contract="Buffer.clone: another handle on the same allocation, deleted independently of "
    "this one.",
)
def clone_deleted_independently(subject: Subject) -> None:
    for large in (X, np.arange(1 << 18, dtype=np.float32)):
        first = put(subject, large)
        second, third = first.clone(), first.clone()
        expect(second is not first, expected="another handle", came="the same object")
        expect_equal(second.shape, large.shape, "the clone's shape")
        where = (second.memory is first.memory, second.device is first.device)
        expect_equal(where, (True, True), "the clone's memory and device are the original's")
        third.delete()
        expect_equal((first.is_deleted(), second.is_deleted()), (False, False), "is_deleted()")
        first.delete()
        expect_equal(second.is_deleted(), False, "the clone's is_deleted()")
        expect_equal(second, large, "the clone of a deleted buffer")


@case(
    "memory",
    "a clone is on the same allocation",
    contract="Buffer.clone: another handle on the same allocation.",
)
def clone_is_the_same_allocation(subject: Subject) -> None:
    buffer = put(subject, X).block_until_ready()
    clone = buffer.clone()
    addresses = (clone.unsafe_buffer_pointer(), buffer.unsafe_buffer_pointer())
    expect(addresses[0] == addresses[1], expected="one address", came=f"{addresses}")


@case(
    "memory",
    "a view outlives its buffer",
    contract="Buffer.__array__: the data as a read-only NumPy array: a view where memory is "
    "host-visible.",
)
def view_outlives_its_buffer(subject: Subject) -> None:
    for size in (4, 1000, 1 << 18):
        expected = np.arange(size, dtype=np.int32)
        buffer = put(subject, expected)
        view = np.asarray(buffer)
        buffer.delete()
        del buffer
        gc.collect()
        for _ in range(4):  # what would reuse the memory, if it was given back
            put(subject, np.full(size, -1, np.int32)).block_until_ready()
        expect_equal(view, expected, "the view of a deleted buffer")


@case(
    "memory",
    "a view outlives its client",
    contract="Client.close: wait for the work in flight and give all memory back; what the host "
    "was shown stays readable.",
)
def view_outlives_its_client(subject: Subject) -> None:
    expected = np.arange(1 << 16, dtype=np.int32)
    with other_client(subject) as client:
        buffer = client.buffer_from_pyval(expected)
        views = [np.asarray(buffer), buffer.__array__()]
        client.close()
        for _ in range(4):
            put(subject, np.full(1 << 16, -1, np.int32)).block_until_ready()
        expect_equal(views[0], expected, "a view after close()")
    del client, buffer
    gc.collect()
    for view in views:
        expect_equal(view, expected, "a view after the client was collected")


@case(
    "memory",
    "a buffer keeps its client alive",
    contract="Device.client: the client that owns the device.",
)
def buffer_keeps_its_client(subject: Subject) -> None:
    with other_client(subject) as client:
        buffer = client.buffer_from_pyval(X)
        expect(buffer.device.client is client, expected="its client", came="another object")
        del client
        gc.collect()
        expect_equal(buffer, X, "a buffer whose client nobody else holds")
        expect_equal(buffer.device.client.is_closed, False, "is_closed of its client")


@case(
    "memory",
    "a closed client and its buffers say so",
    contract="Client.close: give all memory back; errors.ClosedError: a client, or a handle that "
    "belongs to it, was used after the client was closed.",
    alone=True,
)
def closed_client_refuses(subject: Subject) -> None:
    client, device = subject.client, subject.device
    number, buffer = device.id, client.buffer_from_pyval(X)
    expect_equal(client.is_closed, False, "is_closed before")
    client.close()
    client.close()
    expect_equal(client.is_closed, True, "is_closed")
    expect_equal(client.live_buffers(), [], "live_buffers() of a closed client")
    for use in USES.values():
        with expect_error(ClosedError):
            use(buffer)
    for call in (
        lambda: client.buffer_from_pyval(X),
        lambda: client.buffer_from_pyval(X, device),
        lambda: client.batched_buffer_from_pyval(X, [device], [(0, 0)], X.shape),
    ):
        with expect_error(ClosedError):
            call()
    _keeps_its_facts(buffer)
    expect_equal(device.id, number, "the id of a device of a closed client")
    buffer.delete()


@case(
    "memory",
    "closing twice, and from several threads, is closing once",
    contract="Client.close: wait for the work in flight and give all memory back. Idempotent.",
)
def closing_is_idempotent(subject: Subject) -> None:
    with other_client(subject) as client:
        kept = [client.buffer_from_pyval(aligned(1 << 18), None, False, 1) for _ in range(4)]
        together(lambda _: client.close(), 4)
        client.close()
        expect_equal(client.is_closed, True, "is_closed")
    del kept


@case(
    "memory",
    "closing while threads use the client ends each with a typed error",
    contract="Client: all members may be called from any thread; errors.ClosedError.",
)
def closing_under_threads(subject: Subject) -> None:
    with other_client(subject) as client:

        def work(number: int) -> None:
            try:
                for step in range(100_000):
                    _use(client, number + step)
            except (ClosedError, DeletedError):
                return
            except DevrtError as error:
                expect(ok=False, expected="ClosedError", came=f"{type(error).__name__}: {error}")

        def close_soon(_: int) -> None:
            for _ in range(20):
                _use_until_closed(client)
            client.close()

        together(lambda n: work(n) if n else close_soon(n), 4)


def _use(client: Client, number: int) -> None:
    buffer = client.buffer_from_pyval(np.full(1000, number, np.int32))
    expect_equal(int(np.asarray(buffer)[-1]), number, "the last element of what was put")


def _use_until_closed(client: Client) -> None:
    _use(client, 1)
    client.live_buffers()


@case(
    "memory",
    "buffers in cycles are collected",
    contract="Client.live_buffers: the buffers that are neither deleted nor collected.",
)
def cycles_are_collected(subject: Subject) -> None:
    gc.collect()
    live = len(subject.client.live_buffers())

    class Holder:
        """What refers to itself by way of what it holds."""

    for number in range(20):
        holder: Any = Holder()
        holder.buffer = put(subject, np.full(1000, number, np.int32))
        holder.view = np.asarray(holder.buffer)
        holder.itself = [holder, holder.buffer.device.client]
    alive = weakref.ref(holder)
    del holder
    gc.collect()
    expect(alive() is None, expected="the cycle collected", came="an object that is still alive")
    expect_equal(len(subject.client.live_buffers()), live, "live buffers after a collection")


@case(
    "memory",
    "a source that is lent is released with the last that shows it",
    contract="HostBufferSemantics.IMMUTABLE_ZERO_COPY: the buffer may alias the source, which "
    "must not change while the buffer lives.",
)
def lent_source_is_released(subject: Subject) -> None:
    class Tracked(np.ndarray[Any, Any]):
        """An array whose end can be seen."""

    for semantics in range(4):
        source = aligned(1 << 16).view(Tracked)
        expected, alive = np.array(source), weakref.ref(source)
        buffer = subject.client.buffer_from_pyval(source, None, False, semantics)
        clone = buffer.clone()
        del source
        gc.collect()
        buffer.delete()
        expect_equal(clone, expected, f"a clone, with semantics {semantics}")
        clone.delete()
        del buffer, clone
        gc.collect()
        put(subject, X).block_until_ready()  # a call releases what other threads queued
        gc.collect()
        expect(alive() is None, expected="the source released", came=f"kept ({semantics=})")


@case(
    "memory",
    "many threads put, copy, read and delete at once",
    contract="Client: all members may be called from any thread.",
)
def threads_use_one_client(subject: Subject) -> None:
    client, devices = subject.client, subject.devices
    gc.collect()
    live = len(client.live_buffers())

    def churn(seed: int) -> None:
        for step in range(150):
            size = (1, 100, 20_000)[step % 3]
            device = devices[(seed + step) % len(devices)]
            host = np.full(size, seed * 1000 + step, np.int32)
            buffer = client.buffer_from_pyval(host, device, False, step % 3)
            other = buffer.copy_to_memory(devices[step % len(devices)].default_memory())
            ends = (int(np.asarray(buffer)[-1]), int(np.asarray(other)[0]))
            expect_equal(ends, (seed * 1000 + step,) * 2, "what a thread put and copied")
            if step % 2:
                buffer.delete()
            if step % 10 == 0:
                client.live_buffers()

    together(churn, 6)
    gc.collect()
    expect_equal(len(client.live_buffers()), live, "live buffers afterwards")
