"""The SDK's allocators through the memory-kind hook, against models."""

import itertools
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devrt import errors
from devrt.records import MemoryKind
from devrt_cpu import allocators, make_cpu_client
from support import together

KIB = 1024


def client_with(make, **options):
    kind = MemoryKind(platform="cpu", kind="made", allocator=make)
    client = make_cpu_client(memory_kinds=[kind], **options)
    return client, client.devices()[0].memory("made")


OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 70 * KIB)),
        st.tuples(st.just("delete"), st.integers(0, 1 << 30)),
        st.tuples(st.just("trim"), st.just(0)),
    ),
    max_size=60,
)


@given(operations=OPERATIONS, region=st.sampled_from([KIB, 16 * KIB, 128 * KIB]))
@settings(max_examples=60, deadline=None)
def test_an_arena_keeps_its_books_and_the_data(operations, region):
    client, memory = client_with(
        lambda: allocators.arena(allocators.system(), region_bytes=region, granule=KIB)
    )
    with client:
        held = []
        for operation, number in operations:
            if operation == "put":
                host = np.full(number, number % 251, np.uint8)
                held.append(client.buffer_from_pyval(host, memory))
            elif operation == "trim":
                client.defragment()
            elif held:
                held.pop(number % len(held)).delete()
            stats = memory.memory_stats()
            in_use = sum(-(-b.nbytes // 64) * 64 for b in held)
            assert stats["bytes_in_use"] == sum(b.nbytes for b in held)
            assert stats["arena_bytes_in_use"] == in_use
            free = stats["arena_bytes_held"] - in_use
            assert stats["arena_largest_free_block"] <= free
            assert (free > 0) == (stats["arena_largest_free_block"] > 0)
            places = sorted((b.unsafe_buffer_pointer(), b.nbytes) for b in held)
            assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(places))
        assert all((np.asarray(b) == b.nbytes % 251).all() for b in held)
        held.clear()
        client.defragment()
        stats = memory.memory_stats()
        assert stats["arena_bytes_held"] == stats["arena_regions"] == 0


def test_limits_compose():
    def make():
        return allocators.arena(
            allocators.limited(allocators.system(), 10 * KIB), region_bytes=64 * KIB, granule=KIB
        )

    client, memory = client_with(make)
    with client:
        held = client.buffer_from_pyval(np.zeros(9 * KIB, np.uint8), memory)
        with pytest.raises(errors.OutOfMemoryError):
            client.buffer_from_pyval(np.zeros(2 * KIB, np.uint8), memory)
        assert client.buffer_from_pyval(np.zeros(KIB, np.uint8), memory).nbytes == KIB
        del held


@pytest.mark.parametrize(
    "call",
    [
        lambda: allocators.arena(object()),
        lambda: allocators.arena(allocators.system(), granule=100),
        lambda: allocators.arena(allocators.system(), region_bytes=0),
        lambda: allocators.limited(None, 5),
        lambda: allocators.limited("system", 5),
    ],
)
def test_what_cannot_be_composed_is_refused(call):
    with pytest.raises((errors.InvalidArgumentError, TypeError)):
        call()


def test_statistics_agree_with_a_model_under_threads():
    """Each thread counts what it does; sums and bounds must agree at every barrier."""
    threads, rounds = 8, 20
    sizes = [1 + 977 * t for t in range(threads)]
    with make_cpu_client(num_devices=2) as client:
        device = client.devices()[1]
        memories = [device.memory(kind) for kind in ("device", "unpinned_host")]
        seen = []
        barrier = threading.Barrier(threads, action=lambda: seen.append(device.memory_stats()))

        def work(t):
            held = []
            for i in range(rounds):
                held.append(client.buffer_from_pyval(np.zeros(sizes[t], np.int8), memories[t % 2]))
                client.buffer_from_pyval(np.zeros(5, np.int8), memories[i % 2]).delete()
                barrier.wait(timeout=60)
                barrier.wait(timeout=60)
            held.clear()

        together(work, range(threads))
        for i in range(rounds):
            stats = seen[2 * i]
            assert stats["bytes_in_use"] == (i + 1) * sum(sizes)
            assert stats["num_allocs"] == 2 * threads * (i + 1)
            assert stats["largest_alloc_size"] == max(sizes)
            extra = stats["peak_bytes_in_use"] - stats["bytes_in_use"]
            assert 0 <= extra <= 5 * threads
            assert seen[2 * i + 1]["bytes_in_use"] == stats["bytes_in_use"]
        stats = device.memory_stats()
        assert stats["bytes_in_use"] == 0
        assert stats["peak_bytes_in_use"] >= rounds * sum(sizes)
        split = [memory.memory_stats()["num_allocs"] for memory in memories]
        assert sum(split) == stats["num_allocs"]
        assert client.devices()[0].memory_stats()["num_allocs"] == 0
