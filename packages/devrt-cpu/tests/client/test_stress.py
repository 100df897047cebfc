"""Sixteen threads on one client with a memory limit, and a kind of memory that is often full."""

import gc
import random

import numpy as np

from devrt import errors
from devrt.records import MemoryKind
from devrt_cpu import allocators, make_cpu_client
from support import together

THREADS = 16
OPERATIONS = 600
LIMIT = 6 << 20


def tight_arena():
    return allocators.limited(allocators.arena(allocators.system(), region_bytes=1 << 20), 1 << 20)


class Worker:
    """Puts, copies, reads and deletes at random; out of memory is an answer like any other."""

    def __init__(self, client, seed):
        self.client = client
        self.memories = [m for d in client.devices() for m in d.addressable_memories()]
        self.random = random.Random(seed)
        self.held = []
        self.refused = []

    def run(self):
        try:
            for _ in range(OPERATIONS):
                try:
                    self.step()
                except errors.OutOfMemoryError as error:
                    self.refused.append((error.limit, error.requested > 0))
        finally:
            if self.random.random() < 0.5:
                self.held.clear()  # else closing the client ends them

    def step(self):
        choice = self.random.randrange(5) if len(self.held) > 3 else 0
        if choice == 0:
            count = int(2 ** self.random.uniform(0, 16))
            host = np.full(count, count, np.int64)
            semantics = self.random.randrange(4)
            memory = self.random.choice(self.memories)
            self.held.append(self.client.buffer_from_pyval(host, memory, False, semantics))
        elif choice == 1:
            source = self.random.choice(self.held)
            target = self.random.choice(self.memories)
            self.held.append(source.copy_to_memory(target, may_alias=self.random.random() < 0.5))
        elif choice == 2:
            view = np.asarray(self.random.choice(self.held))
            assert view[0] == view[-1] == view.size
        elif choice == 3:
            self.held.pop(self.random.randrange(len(self.held))).delete()
        elif self.random.random() < 0.25:  # each goes through all that is held
            self.client.live_buffers()
            self.client.heap_profile()


def test_sixteen_threads_leave_counts_of_exactly_zero():
    kind = MemoryKind(platform="cpu", kind="tight", allocator=tight_arena)
    client = make_cpu_client(
        num_devices=2,
        memory_kinds=[kind],
        memory_limit_bytes=LIMIT,
        recycled_bytes=1 << 20,
        traceback_in_buffers="all",
    )
    workers = [Worker(client, seed) for seed in range(THREADS)]
    together(Worker.run, workers)
    assert {refusal for worker in workers for refusal in worker.refused} == {(LIMIT, True)}
    devices = client.devices()
    client.close()
    for worker in workers:
        worker.held.clear()
    gc.collect()
    for device in devices:
        stats = device.memory_stats()
        assert stats["bytes_in_use"] == stats["bytes_reserved"] == 0
        assert 0 < stats["peak_bytes_in_use"] <= LIMIT
        for memory in device.addressable_memories():
            stats = memory.memory_stats()
            assert stats["bytes_in_use"] == stats["bytes_reserved"] == 0
    pinned = devices[0].memory("pinned_host").memory_stats()
    assert pinned["bytes_page_locked"] == pinned["bytes_not_page_locked"] == 0
    assert devices[0].memory("tight").memory_stats()["arena_bytes_in_use"] == 0
